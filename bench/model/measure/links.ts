import { setTimeout as sleep } from 'node:timers/promises';
import { benchGateway } from '../../gateway/bench.ts';
import { startDeviceFleet } from '../../support/device-fleet.ts';
import { openStackFixture, type StackFixture } from '../../support/fixture.ts';
import { pidOf, readResidentMb } from '../../support/resource-usage.ts';
import type { MeasuredLinks } from '../measured.ts';

/** Links of one gateway; the last number is near the limit of a process. */
const STEPS = [5_000, 5_000, 7_500];
const SETTLE_MS = 15_000;
const KB = 1_024;

/** Measures the memory of one gateway process as its links grow, and that of links alone with and without TLS. */
export async function measureLinks(): Promise<MeasuredLinks> {
  const rows = await benchGateway(true);
  const bytesOf = (what: string) => (rows.find((row) => row.what === what)?.value ?? NaN) * KB;
  const fixture = await openStackFixture(1);
  const fleets: ReturnType<typeof startDeviceFleet>[] = [];
  try {
    await sleep(SETTLE_MS);
    const pid = pidOf(fixture.stack, 'device-gateway');
    const gatewayMb = [{ links: 0, mb: readResidentMb(pid) }];
    const redisBefore = await readRedisBytes(fixture);
    let links = 0;
    for (const more of STEPS) {
      const tokens = await fixture.audience.register(more);
      const fleet = startDeviceFleet(
        tokens.map(fixture.audience.credentialsOf),
        1,
        fleets.length + 1,
      );
      fleets.push(fleet);
      await fleet.connect([Number(new URL(fixture.stack.dev.mqtt).port)]);
      links += more;
      await sleep(SETTLE_MS);
      gatewayMb.push({ links, mb: readResidentMb(pid) });
    }
    const redisBytesPerLink = ((await readRedisBytes(fixture)) - redisBefore) / links;
    const plainBytes = bytesOf('gateway: memory a connection');
    const tlsBytes = bytesOf('gateway over TLS: memory');
    return { gatewayMb, redisBytesPerLink, plainBytes, tlsBytes };
  } finally {
    await Promise.all(fleets.map((fleet) => fleet.stop()));
    await fixture.close();
  }
}

async function readRedisBytes({ redis }: StackFixture): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1]);
}
