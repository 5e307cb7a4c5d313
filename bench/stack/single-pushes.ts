import { setTimeout as sleep } from 'node:timers/promises';
import { type ConnectedDevices, connectDevices } from '../support/connected-devices.ts';
import type { Size, StackFixture } from '../support/fixture.ts';
import { measureMedian, runConcurrently, WARM_UP_SECONDS } from '../support/load-patterns.ts';
import {
  measureIdleCosts,
  type StackCosts,
  startCostMeter,
  subtractIdle,
} from '../support/stack-costs.ts';
import { percentile, valueRow } from '../support/statistics.ts';
import type { Row } from '../table.ts';
import { measureLatencies, untilArrived } from './one-device.ts';
import { type OneDeviceFloor, startOneDeviceFloor } from './one-device-floor.ts';

/** Gateways of the stack. */
export const SINGLE_PUSH_GATEWAYS = 2;
const ROUNDS: Record<Size, number> = { quick: 3, usual: 5, full: 9 };
const SECONDS: Record<Size, number> = { quick: 3, usual: 5, full: 10 };
const IDLE_MS: Record<Size, number> = { quick: 5_000, usual: 15_000, full: 30_000 };
const DEVICES = 400;
const FLOOR_PUSHES = 100;
/** Settlements and receipts that are still written after the last PUBACK. */
const SETTLE_MS = 300;

/** Pushes a second. */
const RATES = [100, 250, 500, 1_200];
/** Pushes in flight of the closed loops; of a lone push the commands are an exact count. */
const LONE = 1;
const BUSY = 400;

/** One round of a load. */
interface Round {
  latenciesMs: number[];
  perSecond: number;
  pushes: number;
  costs: StackCosts;
  /** Time and CPU of one of the floor's pushes, which are sent in sequence. */
  floorMs: number;
  floorCpuMs: number;
}

/**
 * Measures single pushes to connected devices at steady rates and in a closed loop: the time from the POST to the
 * PUBACK, and the CPU and the commands of a push without what the idle stack uses in the same time.
 */
export async function singlePushes(fixture: StackFixture, size: Size): Promise<Row[]> {
  const floor = await startOneDeviceFloor(fixture);
  const devices = await connectDevices(fixture, DEVICES);
  await runClosedLoop(fixture, devices, BUSY, WARM_UP_SECONDS);
  await fixture.untilIdle();
  const idle = await measureIdleCosts(fixture, IDLE_MS[size]);
  const measureRounds = async (
    run: () => Promise<Pick<Round, 'latenciesMs' | 'perSecond'>>,
  ): Promise<Round[]> => {
    const rounds: Round[] = [];
    for (let n = 0; n <= ROUNDS[size]; n += 1) {
      const floorCosts = await measureFloor(floor);
      rounds.push({ ...(await measureRound(fixture, idle, run)), ...floorCosts });
    }
    // The first round warms up.
    return rounds.slice(1);
  };
  try {
    const rows: Row[] = [];
    for (const perSecond of RATES) {
      const count = perSecond * SECONDS[size];
      const rounds = await measureRounds(async () => ({
        latenciesMs: await measureLatencies(fixture, devices, perSecond, count),
        perSecond,
      }));
      const name = `${perSecond}/s`;
      rows.push(...latencyRows(name, rounds), ...costRows(name, rounds));
    }
    for (const inFlight of [LONE, BUSY]) {
      const rounds = await measureRounds(() =>
        runClosedLoop(fixture, devices, inFlight, SECONDS[size]),
      );
      const name = `${inFlight} in flight`;
      rows.push(rateRow(name, rounds), ...costRows(name, rounds));
    }
    return rows;
  } finally {
    devices.close();
    await floor.stop();
    await fixture.untilIdle();
  }
}

async function measureFloor(floor: OneDeviceFloor): Promise<Pick<Round, 'floorMs' | 'floorCpuMs'>> {
  const before = floor.cpuMs();
  const floorMs = await measureMedian(FLOOR_PUSHES, floor.deliver);
  return { floorMs, floorCpuMs: (floor.cpuMs() - before) / FLOOR_PUSHES };
}

async function measureRound(
  fixture: StackFixture,
  idle: StackCosts,
  run: () => Promise<Pick<Round, 'latenciesMs' | 'perSecond'>>,
): Promise<Omit<Round, 'floorMs' | 'floorCpuMs'>> {
  const readCosts = await startCostMeter(fixture);
  const { latenciesMs, perSecond } = await run();
  await sleep(SETTLE_MS);
  const costs = subtractIdle(await readCosts(), idle);
  await fixture.untilIdle();
  return { latenciesMs, perSecond, pushes: latenciesMs.length, costs };
}

/** Keeps pushes in flight, each until its PUBACK. */
async function runClosedLoop(
  fixture: StackFixture,
  devices: ConnectedDevices,
  inFlight: number,
  seconds: number,
): Promise<Pick<Round, 'latenciesMs' | 'perSecond'>> {
  const latenciesMs: number[] = [];
  const startedAt = performance.now();
  const endsAt = startedAt + seconds * 1_000;
  let next = 0;
  const sendUntilEnd = async () => {
    while (performance.now() < endsAt) {
      const sentAt = performance.now();
      next += 1;
      latenciesMs.push((await untilArrived(fixture, devices, next)) - sentAt);
    }
  };
  await runConcurrently(inFlight, inFlight, sendUntilEnd);
  const elapsedMs = performance.now() - startedAt;
  return { latenciesMs, perSecond: (latenciesMs.length * 1_000) / elapsedMs };
}

function latencyRows(name: string, rounds: readonly Round[]): Row[] {
  const percentiles = (share: number) =>
    rounds.map(({ latenciesMs }) => percentile(latenciesMs, share));
  const floors = rounds.map(({ floorMs }) => floorMs);
  const row = (share: number) =>
    valueRow(`single-pushes: p${share * 100} at ${name}`, percentiles(share), {
      unit: 'ms',
      floors,
    });
  return [row(0.5), row(0.99)];
}

function rateRow(name: string, rounds: readonly Round[]): Row {
  const rates = rounds.map((round) => round.perSecond);
  return valueRow(`single-pushes: delivered a second, ${name}`, rates, { unit: '/s' });
}

function costRows(name: string, rounds: readonly Round[]): Row[] {
  const perPush = (pick: (costs: StackCosts) => number) =>
    rounds.map(({ costs, pushes }) => pick(costs) / pushes);
  const floors = rounds.map(({ floorCpuMs }) => floorCpuMs);
  const services = Object.keys(rounds[0]?.costs.cpuSeconds ?? {});
  const cpuRow = (what: string, pick: (costs: StackCosts) => number) =>
    valueRow(
      `single-pushes: ${what}, ${name}`,
      perPush((costs) => pick(costs) * 1_000),
      { unit: 'ms', floors },
    );
  const commandsRow = (what: string, pick: (costs: StackCosts) => number) =>
    valueRow(`single-pushes: ${what} commands a push, ${name}`, perPush(pick), {
      unit: 'commands',
    });
  return [
    cpuRow('CPU a push', sumCpu),
    ...services.map((service) =>
      cpuRow(`of it ${service}`, ({ cpuSeconds }) => cpuSeconds[service] ?? 0),
    ),
    commandsRow('Redis', ({ redisCommands }) => redisCommands),
    commandsRow('MongoDB', ({ mongoCommands }) => mongoCommands),
  ];
}

function sumCpu({ cpuSeconds }: StackCosts): number {
  return Object.values(cpuSeconds).reduce((total, used) => total + used, 0);
}
