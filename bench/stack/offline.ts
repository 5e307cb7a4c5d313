import type { Size, StackFixture } from '../support/fixture.ts';
import { untilDeleted, untilSettled } from '../support/progress.ts';
import { pidOf, readCpuSeconds } from '../support/resource-usage.ts';
import { type Round, ratioRow, valueRow } from '../support/statistics.ts';
import type { Row } from '../table.ts';

const ROUNDS = 5;
const AUDIENCES: Record<Size, readonly number[]> = {
  quick: [5_000, 20_000],
  usual: [10_000, 100_000],
  full: [10_000, 100_000, 1_000_000],
};

/** Cost of one offline recipient of a push. */
interface Cost {
  /** Elapsed microseconds. */
  time: number;
  /** Microseconds of MongoDB's CPU time. */
  cpu: number;
  /** Bytes written to MongoDB's journal. */
  journalBytes: number;
}

/** Measures a push to subscribers that are all offline: one inbox row each. */
export async function offline(fixture: StackFixture, size: Size): Promise<Row[]> {
  const audiences = AUDIENCES[size];
  const costs: Cost[][] = [];
  for (const count of audiences) costs.push(await measureCosts(fixture, count));
  const [smallest = []] = costs;
  const largest = costs.at(-1) ?? [];
  const from = `${formatCount(audiences[0] ?? 0)} to ${formatCount(audiences.at(-1) ?? 0)}`;
  const growth = (what: string, name: keyof Cost, unit: string): Row => {
    const rounds = smallest.map((cost, round): Round => {
      return { floor: cost[name], ours: largest[round]?.[name] ?? Number.NaN };
    });
    const options = { unit, ratio: 'ours/floor' } as const;
    return ratioRow(`offline: ${what} a device, from ${from}`, rounds, options);
  };
  return [
    ...audiences.flatMap((count, at) => toRows(count, costs[at] ?? [])),
    growth('time', 'time', 'µs'),
    growth("MongoDB's CPU", 'cpu', 'µs'),
    growth('journal', 'journalBytes', 'bytes'),
  ];
}

function toRows(count: number, costs: readonly Cost[]): Row[] {
  const row = (what: string, unit: string, pick: (cost: Cost) => number) =>
    valueRow(`offline: ${formatCount(count)}, ${what}`, costs.map(pick), { unit });
  return [
    row('all in their inboxes', 's', ({ time }) => (time * count) / 1e6),
    row('time a device', 'µs', ({ time }) => time),
    row("MongoDB's CPU a device", 'µs', ({ cpu }) => cpu),
    row('journal a device', 'bytes', ({ journalBytes }) => journalBytes),
  ];
}

/** Measures the costs of each round. The first warms up. */
async function measureCosts(fixture: StackFixture, count: number): Promise<Cost[]> {
  const { audience } = fixture;
  const topic = await audience.subscribe(`offline-${count}`, await audience.register(count));
  const rounds: Cost[] = [];
  for (let n = 0; n <= ROUNDS; n += 1) rounds.push(await sendOnce(fixture, topic, count));
  return rounds.slice(1);
}

async function sendOnce(fixture: StackFixture, topic: string, count: number): Promise<Cost> {
  const { mongo, stack } = fixture;
  const mongod = pidOf(stack, 'mongodb');
  const before = { cpu: readCpuSeconds(mongod), journal: await journalBytes(fixture) };
  const startedAt = performance.now();
  const push = await fixture.push(topic);
  await untilSettled(mongo, push, 20);
  const cost = {
    time: ((performance.now() - startedAt) * 1_000) / count,
    cpu: ((readCpuSeconds(mongod) - before.cpu) * 1e6) / count,
    journalBytes: ((await journalBytes(fixture)) - before.journal) / count,
  };
  await fixture.call(fixture.request('DELETE', `/pushes/${push}`));
  await untilDeleted(mongo, push);
  return cost;
}

async function journalBytes({ mongo }: StackFixture): Promise<number> {
  const { wiredTiger } = await mongo.admin().serverStatus();
  return Number((wiredTiger as { log: Record<string, unknown> }).log['log bytes written']);
}

function formatCount(count: number): string {
  return count.toLocaleString('en');
}
