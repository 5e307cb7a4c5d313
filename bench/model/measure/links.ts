import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { benchGateway } from '../../gateway/bench.ts';
import { startDeviceFleet } from '../../support/device-fleet.ts';
import { openStackFixture, type StackFixture } from '../../support/fixture.ts';
import { pidOf, readResidentMb } from '../../support/resource-usage.ts';
import type { MeasuredLinks } from '../measured.ts';

/** Connections of one gateway at which its memory is read, up to the limit of open files. */
const SIZES = [5_000, 10_000, 17_500, 50_000, 100_000];
/** Open files of a process beside its connections, and for each, as the default of MAX_CONNECTIONS assumes. */
const FILES_BESIDES = 1_100;
const FILES_PER_CONNECTION = 1.05;
const SETTLE_MS = 15_000;
const KB = 1_024;

/** Measures the memory of one gateway process by its connections, and of connections alone with and without TLS. */
export async function measureLinks(): Promise<MeasuredLinks> {
  const rows = await benchGateway(true);
  const bytesOf = (what: string) => (rows.find((row) => row.what === what)?.value ?? NaN) * KB;
  const maxConnections = await readMaxConnections();
  const fixture = await openStackFixture(1, { MAX_CONNECTIONS: String(maxConnections) });
  const fleets: ReturnType<typeof startDeviceFleet>[] = [];
  try {
    await sleep(SETTLE_MS);
    const pid = pidOf(fixture.stack, 'device-gateway');
    const gatewayMb = [{ links: 0, mb: readResidentMb(pid) }];
    const redisBefore = await readRedisBytes(fixture);
    let connections = 0;
    for (const size of SIZES.filter((size) => size <= maxConnections)) {
      const more = size - connections;
      const tokens = await fixture.audience.register(more);
      const fleet = startDeviceFleet(
        tokens.map(fixture.audience.credentialsOf),
        1,
        fleets.length + 1,
      );
      fleets.push(fleet);
      await fleet.connect([Number(new URL(fixture.stack.dev.mqtt).port)]);
      connections += more;
      await sleep(SETTLE_MS);
      gatewayMb.push({ links: connections, mb: readResidentMb(pid) });
    }
    const redisBytesPerLink = ((await readRedisBytes(fixture)) - redisBefore) / connections;
    const plainBytes = bytesOf('gateway: memory a connection');
    const tlsBytes = bytesOf('gateway over TLS: memory');
    return { gatewayMb, redisBytesPerLink, plainBytes, tlsBytes };
  } finally {
    await Promise.all(fleets.map((fleet) => fleet.stop()));
    await fixture.close();
  }
}

/** Returns the maximum connections of a process by its limit of open files, as the gateway computes it. */
async function readMaxConnections(): Promise<number> {
  const limits = await readFile('/proc/self/limits', 'utf8');
  const files = Number(/^Max open files +(\d+)/m.exec(limits)?.[1]);
  return Math.floor((files - FILES_BESIDES) / FILES_PER_CONNECTION);
}

async function readRedisBytes({ redis }: StackFixture): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1]);
}
