import { setTimeout as sleep } from 'node:timers/promises';
import { countRunsSince, readBatchRuns } from '../support/batch-runs.ts';
import { type ConnectedDevices, connectDevices } from '../support/connected-devices.ts';
import {
  openAppFixture,
  openStackFixture,
  type Size,
  type StackFixture,
} from '../support/fixture.ts';
import {
  countSchedulerStatements,
  type SchedulerStatements,
} from '../support/scheduler-statements.ts';
import {
  measureIdleCosts,
  type StackCosts,
  startCostMeter,
  subtractIdle,
} from '../support/stack-costs.ts';
import { percentile, ratioRow, valueRow } from '../support/statistics.ts';
import type { Row } from '../table.ts';
import { type Flood, sampleEmptyQueue, startFlood } from './flood.ts';
import { measureNamedPush, measurePushesBesideLarge } from './large-pushes.ts';
import { measureLatencies } from './one-device.ts';

/** Delivery-workers of each stack; the others are compared with the first. */
const WORKERS = [1, 2, 4, 8] as const;
const MOST_WORKERS = 8;
/** The other processes are the same in all stacks, so that only the workers differ. */
const APIS = 4;
const GATEWAYS = 4;
const SCHEDULERS = 3;
/** One worker, which has 192 single pushes in progress, always finds more in the queue. */
const FULL_QUEUE = 2_400;
/** Pushes in flight of each load; the goal applies to the full queue. */
const LOADS = [100, FULL_QUEUE] as const;
const DEVICES = 1_200;
const ROUNDS: Record<Size, number> = { quick: 3, usual: 5, full: 7 };
const SECONDS: Record<Size, number> = { quick: 5, usual: 6, full: 30 };
const IDLE_MS: Record<Size, number> = { quick: 8_000, usual: 20_000, full: 60_000 };
/** Pushes of the other app, one a second. */
const OTHER_PUSHES: Record<Size, number> = { quick: 15, usual: 40, full: 300 };
/** Until the background work after a start and after the connects has ended. */
const REST_MS = 10_000;
const WARM_UP_MS = 4_000;
const MAX_GROWTH = 1.1;
/** Slots of ten workers. */
const MORE_OPEN_BATCHES = 240;

/** One round of a flood. */
interface LoadRound {
  redis: number;
  mongo: number;
  perSecond: number;
  cpuMs: number;
  /** Requests that the API has refused because of overload, for each push that arrived. */
  refused: number;
  /** Share of the samples in which no push waited for a worker. */
  emptyQueue: number;
  /** Runs that found their batch claimed or settled by another worker, for each batch. */
  notTaken: number;
  /** Batches of the worker with the fewest, as a share of the mean. */
  least: number;
}

/** The rounds of a stack by its number of workers. */
interface Load {
  workers: number;
  inFlight: number;
  rounds: readonly LoadRound[];
}

/** A stack at rest. */
interface AtRest {
  costs: StackCosts;
  schedulers: SchedulerStatements;
}

/**
 * Measures stacks with 1, 2, 4 and 8 delivery-workers beside four APIs, four gateways and three schedulers: the commands
 * of a push while the queue is full, and with eight workers how they share the work and the latency of another app's pushes.
 */
export async function manyProcesses(size: Size): Promise<Row[]> {
  const loads: Load[] = [];
  const rows: Row[] = [];
  const rests = new Map<number, AtRest>();
  for (const workers of WORKERS) {
    await withStack({ workers }, async (fixture) => {
      const devices = await connectAndRest(fixture);
      const costs = await measureIdleCosts(fixture, IDLE_MS[size]);
      for (const inFlight of LOADS) {
        loads.push({
          workers,
          inFlight,
          rounds: await measureLoad(fixture, devices, inFlight, costs, size),
        });
      }
      if (workers === MOST_WORKERS) {
        const schedulers = await countSchedulerStatements(fixture, IDLE_MS[size]);
        rests.set(SCHEDULERS, { costs, schedulers });
        rows.push(...(await measureOtherApp(fixture, devices, size)));
      }
      devices.close();
    });
  }
  await withStack({ workers: MOST_WORKERS, schedulers: 1 }, async (fixture) => {
    const devices = await connectAndRest(fixture);
    const costs = await measureIdleCosts(fixture, IDLE_MS[size]);
    rests.set(1, { costs, schedulers: await countSchedulerStatements(fixture, IDLE_MS[size]) });
    devices.close();
  });
  return [...loadRows(loads), ...rows, ...schedulerRows(rests)];
}

/**
 * Measures stacks with eight delivery-workers: pushes to ten devices beside one to many, and how many workers a large push
 * uses.
 */
export async function largePushes(size: Size): Promise<Row[]> {
  const rows: Row[] = [];
  await withStack({ workers: MOST_WORKERS }, async (fixture) => {
    const devices = await connectAndRest(fixture);
    rows.push(...(await measurePushesBesideLarge(fixture, devices, size)));
    rows.push(...(await measureNamedPush(fixture, 'OPEN_BATCHES_PER_PUSH by default')));
    devices.close();
  });
  const openBatches = MORE_OPEN_BATCHES;
  await withStack({ workers: MOST_WORKERS, openBatches }, async (fixture) => {
    await sleep(REST_MS);
    rows.push(...(await measureNamedPush(fixture, `OPEN_BATCHES_PER_PUSH ${openBatches}`)));
  });
  return rows;
}

async function withStack(
  {
    workers,
    schedulers = SCHEDULERS,
    openBatches,
  }: { workers: number; schedulers?: number; openBatches?: number },
  measure: (fixture: StackFixture) => Promise<void>,
): Promise<void> {
  const fixture = await openStackFixture(GATEWAYS, {
    CARILLON_APIS: String(APIS),
    CARILLON_DELIVERY_WORKERS: String(workers),
    CARILLON_SCHEDULERS: String(schedulers),
    ...(openBatches !== undefined && { OPEN_BATCHES_PER_PUSH: String(openBatches) }),
  });
  try {
    await measure(fixture);
  } finally {
    await fixture.close();
  }
}

/** Connects the devices: idle ones cost commands, too. */
async function connectAndRest(fixture: StackFixture): Promise<ConnectedDevices> {
  const devices = await connectDevices(fixture, DEVICES);
  await sleep(REST_MS);
  return devices;
}

async function measureLoad(
  fixture: StackFixture,
  devices: ConnectedDevices,
  inFlight: number,
  idle: StackCosts,
  size: Size,
): Promise<LoadRound[]> {
  const flood = startFlood(fixture, devices, inFlight);
  await sleep(WARM_UP_MS);
  const rounds: LoadRound[] = [];
  for (let n = 0; n < ROUNDS[size]; n += 1) {
    rounds.push(await measureRound(fixture, flood, idle, SECONDS[size] * 1_000));
  }
  await flood.stop();
  await fixture.untilIdle();
  return rounds;
}

/** Measures a part of a flood, without its end, when the queue empties. */
async function measureRound(
  fixture: StackFixture,
  flood: Flood,
  idle: StackCosts,
  ms: number,
): Promise<LoadRound> {
  const runsBefore = await readBatchRuns(fixture.stack);
  const readCosts = await startCostMeter(fixture);
  const before = flood.counts();
  const emptyQueue = await sampleEmptyQueue(fixture, ms);
  const { arrived, refused } = flood.counts();
  const pushes = arrived - before.arrived;
  const costs = subtractIdle(await readCosts(), idle);
  const runs = await readBatchRuns(fixture.stack);
  const settled = countRunsSince(runsBefore, runs, 'settled');
  const batches = sum(settled);
  return {
    redis: costs.redisCommands / pushes,
    mongo: costs.mongoCommands / pushes,
    perSecond: pushes / costs.seconds,
    cpuMs: (sum(Object.values(costs.cpuSeconds)) * 1_000) / pushes,
    refused: (refused - before.refused) / pushes,
    emptyQueue,
    notTaken: sum(countRunsSince(runsBefore, runs, 'not taken')) / batches,
    least: Math.min(...settled) / (batches / settled.length),
  };
}

function loadRows(loads: readonly Load[]): Row[] {
  return LOADS.flatMap((inFlight) => {
    const ofLoad = loads.filter((load) => load.inFlight === inFlight);
    const [one, ...others] = ofLoad;
    if (one === undefined) return [];
    return [
      ...ofLoad.flatMap(countRows),
      ...others.flatMap((load) => [
        growthRow('Redis', one, load, ({ redis }) => redis),
        growthRow('MongoDB', one, load, ({ mongo }) => mongo),
      ]),
    ];
  });
}

function nameOf({ workers, inFlight }: Load): string {
  const noun = workers === 1 ? 'worker' : 'workers';
  return `${inFlight.toLocaleString('en')} in flight, ${workers} ${noun}`;
}

function countRows(load: Load): Row[] {
  const row = (what: string, unit: string, pick: (round: LoadRound) => number) =>
    valueRow(`many-processes: ${nameOf(load)}: ${what}`, load.rounds.map(pick), { unit });
  const rows = [
    row('delivered a second', '/s', ({ perSecond }) => perSecond),
    row('CPU a push', 'ms', ({ cpuMs }) => cpuMs),
    row('requests refused with 503 a push', '%', ({ refused }) => refused * 100),
    row('samples with an empty queue', '%', ({ emptyQueue }) => emptyQueue * 100),
    row('runs in vain a push', '%', ({ notTaken }) => notTaken * 100),
  ];
  if (load.workers === 1) return rows;
  const share = row("the least busy worker's pushes of the mean", '%', ({ least }) => least * 100);
  return [...rows, share];
}

function growthRow(server: string, one: Load, load: Load, pick: (round: LoadRound) => number): Row {
  const [floors, ours] = [one, load].map(({ rounds }) => rounds.map(pick));
  const pairs = (ours ?? []).map((value, n) => ({ floor: floors?.[n] ?? Number.NaN, ours: value }));
  const what = `many-processes: ${nameOf(load)}: ${server} commands a push against 1 worker`;
  return ratioRow(what, pairs, {
    unit: 'commands',
    ratio: 'ours/floor',
    ...(load.inFlight === FULL_QUEUE && { goal: { atMost: MAX_GROWTH } }),
  });
}

/** Measures one push a second of another app, alone and while the first app floods. */
async function measureOtherApp(
  fixture: StackFixture,
  devices: ConnectedDevices,
  size: Size,
): Promise<Row[]> {
  const other = await openAppFixture(fixture, 'other');
  const otherDevices = await connectDevices(other, 1);
  try {
    const count = OTHER_PUSHES[size];
    const alone = await measureLatencies(other, otherDevices, 1, count);
    const flood = startFlood(fixture, devices, FULL_QUEUE);
    await sleep(WARM_UP_MS);
    const beside = await measureLatencies(other, otherDevices, 1, count);
    await flood.stop();
    await fixture.untilIdle();
    return [0.5, 0.99].map((share) =>
      ratioRow(
        `many-processes: p${share * 100} of an app with ${count} pushes, one a second, beside ${FULL_QUEUE.toLocaleString('en')} in flight, against alone`,
        [{ floor: percentile(alone, share), ours: percentile(beside, share) }],
        { unit: 'ms', ratio: 'ours/floor' },
      ),
    );
  } finally {
    otherDevices.close();
    await other.close();
  }
}

function schedulerRows(rests: ReadonlyMap<number, AtRest>): Row[] {
  const growth = (what: string, pick: (rest: AtRest) => number, atMost?: number) => {
    const [one, many] = [rests.get(1), rests.get(SCHEDULERS)].map((rest) =>
      rest === undefined ? Number.NaN : pick(rest),
    );
    return ratioRow(
      `many-processes: ${what} at rest, ${SCHEDULERS} schedulers against 1`,
      [{ floor: one ?? Number.NaN, ours: many ?? Number.NaN }],
      { unit: '/s', ratio: 'ours/floor', ...(atMost !== undefined && { goal: { atMost } }) },
    );
  };
  return [
    growth('ticks', ({ schedulers }) => schedulers.ticksPerSecond, MAX_GROWTH),
    growth("schedulers' statements to MongoDB", ({ schedulers }) => schedulers.perSecond),
    growth('commands to MongoDB', ({ costs }) => costs.mongoCommands / costs.seconds),
    growth('commands to Redis', ({ costs }) => costs.redisCommands / costs.seconds),
  ];
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
