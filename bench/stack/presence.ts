import type { Size, StackFixture } from '../support/fixture.ts';
import { measureMedian } from '../support/load-patterns.ts';
import { pidOf, readCpuSeconds } from '../support/resource-usage.ts';
import { measureAlternately, ratioRow, valueRow } from '../support/statistics.ts';
import type { Row } from '../table.ts';

const ROUNDS = 5;
const TOKENS = 1_000;
const TIMES: Record<Size, number> = { quick: 30, usual: 100, full: 300 };
/** A single lookup is faster, so it is repeated more often. */
const SINGLE_LOOKUPS = 5;

/** Measures the presence of a thousand devices and the details of one device, compared with the one query each needs. */
export async function presence(fixture: StackFixture, size: Size): Promise<Row[]> {
  const { audience, request, stack } = fixture;
  const tokens = await audience.register(TOKENS);
  const [token = ''] = tokens;
  const devices = fixture.mongo.collection<{ _id: string }>('devices');
  const find = (list: string[]) => async () => {
    const filter = { _id: { $in: list }, app: stack.dev.app, deletedAt: { $exists: false } };
    await devices.find(filter, { batchSize: list.length + 1 }).toArray();
  };
  const bulk = request('POST', '/devices/presence', JSON.stringify({ tokens: tokens }));
  const info = request('GET', `/devices/${token}`);
  return [
    ...(await measure(fixture, {
      name: `presence of ${TOKENS}`,
      times: TIMES[size],
      find: find(tokens),
      request: bulk,
    })),
    ...(await measure(fixture, {
      name: 'device info',
      times: TIMES[size] * SINGLE_LOOKUPS,
      find: find([token]),
      request: info,
    })),
  ];
}

/** A route, and the query that it needs at least. */
interface Lookup {
  name: string;
  /** Most that it may take of the query's time. */
  times: number;
  find: () => Promise<void>;
  request: Buffer;
}

async function measure(
  fixture: StackFixture,
  { name, times, find, request }: Lookup,
): Promise<Row[]> {
  const pids = ['api', 'mongodb', 'redis'].map((service) => pidOf(fixture.stack, service));
  const cpu: number[] = [];
  const rounds = await measureAlternately(
    ROUNDS + 1,
    () => measureMedian(times, find),
    async () => {
      const before = pids.map(readCpuSeconds);
      const ms = await measureMedian(times, async () => {
        await fixture.call(request);
      });
      const used = pids.reduce((sum, pid, at) => sum + readCpuSeconds(pid) - (before[at] ?? 0), 0);
      cpu.push((used * 1_000) / times);
      return ms;
    },
  );
  const what = `presence: p50 of ${name} against one find`;
  return [
    ratioRow(what, rounds.slice(1), {
      unit: 'ms',
      ratio: 'ours/floor',
    }),
    valueRow(`presence: CPU of ${name}, API and servers`, cpu.slice(1), { unit: 'ms' }),
  ];
}
