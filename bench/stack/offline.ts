import type { Size, StackFixture } from '../support/fixture.ts';
import { untilDeleted, untilSettled } from '../support/progress.ts';
import { pidOf, readCpuSeconds } from '../support/resource-usage.ts';
import { median, type Row } from '../table.ts';

const ROUNDS = 3;
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
  const costs: Cost[] = [];
  for (const count of audiences) costs.push(await measureCost(fixture, count));
  const [smallest] = costs;
  const largest = costs.at(-1);
  const perDevice = audiences.flatMap((count, at) => toRows(count, costs[at]));
  if (smallest === undefined || largest === undefined) return perDevice;
  const from = `${formatCount(audiences[0] ?? 0)} to ${formatCount(audiences.at(-1) ?? 0)}`;
  const goal = { atMost: 1.1 };
  const growth = (what: string, name: keyof Cost): Row => ({
    what: `offline: ${what} a device, from ${from}`,
    value: largest[name] / smallest[name],
    unit: '×',
    goal,
  });
  return [
    ...perDevice,
    growth('time', 'time'),
    growth("MongoDB's CPU", 'cpu'),
    growth('journal', 'journalBytes'),
  ];
}

function toRows(count: number, cost: Cost | undefined): Row[] {
  if (cost === undefined) return [];
  const name = `offline: ${formatCount(count)}`;
  return [
    { what: `${name}, all in their inboxes`, value: (cost.time * count) / 1e6, unit: 's' },
    { what: `${name}, time a device`, value: cost.time, unit: 'µs' },
    { what: `${name}, MongoDB's CPU a device`, value: cost.cpu, unit: 'µs' },
    { what: `${name}, journal a device`, value: cost.journalBytes, unit: 'bytes' },
  ];
}

async function measureCost(fixture: StackFixture, count: number): Promise<Cost> {
  const { audience } = fixture;
  const topic = await audience.subscribe(`offline-${count}`, await audience.register(count));
  const rounds: Cost[] = [];
  for (let n = 0; n <= ROUNDS; n += 1) rounds.push(await sendOnce(fixture, topic, count));
  const medianOf = (name: keyof Cost) => median(rounds.slice(1).map((round) => round[name]));
  return { time: medianOf('time'), cpu: medianOf('cpu'), journalBytes: medianOf('journalBytes') };
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
