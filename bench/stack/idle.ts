import { setTimeout as sleep } from 'node:timers/promises';
import type { Size, StackFixture } from '../support/fixture.ts';
import { isDeliveryProcess, readPssMb, startUsageMeter } from '../support/resource-usage.ts';
import { valueRow } from '../support/statistics.ts';
import type { Row } from '../table.ts';

const ROUNDS: Record<Size, number> = { quick: 3, usual: 5, full: 5 };
const SECONDS: Record<Size, number> = { quick: 5, usual: 20, full: 60 };
/** Waits until the background work after a start has ended. */
const SETTLE_MS: Record<Size, number> = { quick: 3_000, usual: 15_000, full: 15_000 };

/** Use of the stack in a part of the time: by process, and commands of its servers. */
interface Round {
  /** Per cent of a core by process. */
  cpu: Record<string, number>;
  /** Memory in MB by process. */
  memory: Record<string, number>;
  redisPerSecond: number;
  mongoPerSecond: number;
}

/**
 * Measures the resource usage of an idle stack. The sums are those of api, delivery-worker, scheduler, the gateways, MongoDB
 * and Redis: the console, the sandbox and what `npm start` adds are rows of their own.
 */
export async function idle(fixture: StackFixture, size: Size): Promise<Row[]> {
  await sleep(SETTLE_MS[size]);
  const rounds: Round[] = [];
  for (let n = 0; n < ROUNDS[size]; n += 1) rounds.push(await measureRound(fixture, SECONDS[size]));
  const processes = Object.keys(rounds[0]?.cpu ?? {});
  const row = (what: string, unit: string, pick: (round: Round) => number) =>
    valueRow(`idle: ${what}`, rounds.map(pick), {
      unit,
    });
  const counted = processes.filter((process) => isDeliveryProcess({ process }));
  const sum = (values: Record<string, number>) =>
    counted.reduce((total, process) => total + (values[process] ?? 0), 0);
  return [
    row(`CPU of ${counted.length} processes`, '% of a core', ({ cpu }) => sum(cpu)),
    row(`memory of ${counted.length} processes`, 'MB', ({ memory }) => sum(memory)),
    ...processes.flatMap((process) => [
      row(`CPU of ${process}`, '% of a core', ({ cpu }) => cpu[process] ?? 0),
      row(`memory of ${process}`, 'MB', ({ memory }) => memory[process] ?? 0),
    ]),
    row('commands to Redis', '/s', ({ redisPerSecond }) => redisPerSecond),
    row('commands to MongoDB', '/s', ({ mongoPerSecond }) => mongoPerSecond),
  ];
}

async function measureRound(fixture: StackFixture, forSeconds: number): Promise<Round> {
  const meter = startUsageMeter(fixture.stack);
  const before = await countCommands(fixture);
  const startedAt = performance.now();
  await sleep(forSeconds * 1_000);
  const uses = meter.read();
  const seconds = (performance.now() - startedAt) / 1_000;
  const after = await countCommands(fixture);
  return {
    cpu: Object.fromEntries(
      uses.map(({ process, cpuSeconds }) => [process, (cpuSeconds * 100) / seconds]),
    ),
    memory: Object.fromEntries(uses.map(({ process, pid }) => [process, readPssMb(pid)])),
    redisPerSecond: (after.redis - before.redis) / seconds,
    mongoPerSecond: (after.mongo - before.mongo) / seconds,
  };
}

async function countCommands({
  mongo,
  redis,
}: StackFixture): Promise<{ redis: number; mongo: number }> {
  const stats = await redis.info('stats');
  const { opcounters } = await mongo.admin().serverStatus();
  const counts = Object.values(opcounters as Record<string, unknown>);
  return {
    redis: Number(/total_commands_processed:(\d+)/.exec(stats)?.[1]),
    mongo: counts.reduce<number>((sum, n) => sum + (typeof n === 'number' ? n : 0), 0),
  };
}
