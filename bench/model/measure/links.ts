import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { benchGateway } from '../../gateway/bench.ts';
import { startDeviceFleet } from '../../support/device-fleet.ts';
import { openStackFixture, type StackFixture } from '../../support/fixture.ts';
import { pidOf, readResidentMb } from '../../support/resource-usage.ts';
import type { MeasuredLinks } from '../measured.ts';

/** Links of one gateway, at each of which its memory is read: those that the limit of open files allows. */
const SIZES = [5_000, 10_000, 17_500, 50_000, 100_000];
/** Of which a process needs some beside its links, and some more for each, as the setting MAX_CONNECTIONS says. */
const FILES_BESIDES = 1_100;
const FILES_A_LINK = 1.05;
const SETTLE_MS = 15_000;
const KB = 1_024;

/** Measures the memory of one gateway process as its links grow, and that of links alone with and without TLS. */
export async function measureLinks(): Promise<MeasuredLinks> {
  const rows = await benchGateway(true);
  const bytesOf = (what: string) => (rows.find((row) => row.what === what)?.value ?? NaN) * KB;
  const maxLinks = await readMaxLinks();
  const fixture = await openStackFixture(1, { MAX_CONNECTIONS: String(maxLinks) });
  const fleets: ReturnType<typeof startDeviceFleet>[] = [];
  try {
    await sleep(SETTLE_MS);
    const pid = pidOf(fixture.stack, 'device-gateway');
    const gatewayMb = [{ links: 0, mb: readResidentMb(pid) }];
    const redisBefore = await readRedisBytes(fixture);
    let links = 0;
    for (const size of SIZES.filter((links) => links <= maxLinks)) {
      const more = size - links;
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

/** Returns the most links that one process may have by its limit of open files, as the gateway computes it. */
async function readMaxLinks(): Promise<number> {
  const limits = await readFile('/proc/self/limits', 'utf8');
  const files = Number(/^Max open files +(\d+)/m.exec(limits)?.[1]);
  return Math.floor((files - FILES_BESIDES) / FILES_A_LINK);
}

async function readRedisBytes({ redis }: StackFixture): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1]);
}
