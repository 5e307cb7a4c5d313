import { untilGone, untilWorked } from '../support/progress.ts';
import type { Scene, Size } from '../support/scene.ts';
import { cpuSeconds, pidOf } from '../support/usage.ts';
import { median, type Row } from '../table.ts';

const ROUNDS = 3;
const AUDIENCES: Record<Size, readonly number[]> = {
  quick: [5_000, 20_000],
  usual: [10_000, 100_000],
  full: [10_000, 100_000, 1_000_000],
};

/** What a recipient of a push costs who is not there. */
interface Cost {
  /** Microseconds on the clock. */
  time: number;
  /** Microseconds of MongoDB's CPU. */
  cpu: number;
  /** That MongoDB has written into its journal. */
  journalBytes: number;
}

/** A push to subscribers of whom nobody is connected: a row in the inbox of each. */
export async function offline(scene: Scene, size: Size): Promise<Row[]> {
  const audiences = AUDIENCES[size];
  const costs: Cost[] = [];
  for (const count of audiences) costs.push(await costOf(scene, count));
  const [least] = costs;
  const most = costs.at(-1);
  const perDevice = audiences.flatMap((count, at) => rowsOf(count, costs[at]));
  if (least === undefined || most === undefined) return perDevice;
  const from = `${named(audiences[0] ?? 0)} to ${named(audiences.at(-1) ?? 0)}`;
  const goal = { atMost: 1.1 };
  const growth = (what: string, name: keyof Cost): Row => ({
    what: `offline: ${what} a device, from ${from}`,
    value: most[name] / least[name],
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

function rowsOf(count: number, cost: Cost | undefined): Row[] {
  if (cost === undefined) return [];
  const name = `offline: ${named(count)}`;
  return [
    { what: `${name}, all in their inboxes`, value: (cost.time * count) / 1e6, unit: 's' },
    { what: `${name}, time a device`, value: cost.time, unit: 'µs' },
    { what: `${name}, MongoDB's CPU a device`, value: cost.cpu, unit: 'µs' },
    { what: `${name}, journal a device`, value: cost.journalBytes, unit: 'bytes' },
  ];
}

async function costOf(scene: Scene, count: number): Promise<Cost> {
  const { audience } = scene;
  const topic = await audience.subscribe(`offline-${count}`, await audience.register(count));
  const rounds: Cost[] = [];
  for (let n = 0; n <= ROUNDS; n += 1) rounds.push(await sendOnce(scene, topic, count));
  const middle = (name: keyof Cost) => median(rounds.slice(1).map((round) => round[name]));
  return { time: middle('time'), cpu: middle('cpu'), journalBytes: middle('journalBytes') };
}

async function sendOnce(scene: Scene, topic: string, count: number): Promise<Cost> {
  const { mongo, stack } = scene;
  const mongod = pidOf(stack, 'mongodb');
  const before = { cpu: cpuSeconds(mongod), journal: await journalBytes(scene) };
  const startedAt = performance.now();
  const push = await scene.push(topic);
  await untilWorked(mongo, push, 20);
  const cost = {
    time: ((performance.now() - startedAt) * 1_000) / count,
    cpu: ((cpuSeconds(mongod) - before.cpu) * 1e6) / count,
    journalBytes: ((await journalBytes(scene)) - before.journal) / count,
  };
  await scene.call(scene.request('DELETE', `/pushes/${push}`));
  await untilGone(mongo, push);
  return cost;
}

async function journalBytes({ mongo }: Scene): Promise<number> {
  const { wiredTiger } = await mongo.admin().serverStatus();
  return Number((wiredTiger as { log: Record<string, unknown> }).log['log bytes written']);
}

function named(count: number): string {
  return count.toLocaleString('en');
}
