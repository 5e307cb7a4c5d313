import { setTimeout as sleep } from 'node:timers/promises';
import type { StackFixture } from './fixture.ts';
import { readCpuSeconds } from './resource-usage.ts';

/** Resources that a stack has used in a measurement: CPU by service, and commands that its servers have executed. */
export interface StackCosts {
  seconds: number;
  /** CPU seconds by service; processes of the same service are added up. */
  cpuSeconds: Record<string, number>;
  /** Commands that Redis has executed, those inside scripts included. */
  redisCommands: number;
  /** Commands that MongoDB has executed. */
  mongoCommands: number;
}

/** Starts a measurement; the returned function ends it. */
export async function startCostMeter(fixture: StackFixture): Promise<() => Promise<StackCosts>> {
  const before = await readTotals(fixture);
  const startedAt = performance.now();
  return async () => {
    const seconds = (performance.now() - startedAt) / 1_000;
    const after = await readTotals(fixture);
    const cpuSeconds = Object.fromEntries(
      Object.entries(after.cpuSeconds).map(([service, used]) => [
        service,
        used - (before.cpuSeconds[service] ?? 0),
      ]),
    );
    return {
      seconds,
      cpuSeconds,
      redisCommands: after.redisCommands - before.redisCommands,
      mongoCommands: after.mongoCommands - before.mongoCommands,
    };
  };
}

/** Measures what a stack uses without load. */
export async function measureIdleCosts(fixture: StackFixture, ms: number): Promise<StackCosts> {
  const read = await startCostMeter(fixture);
  await sleep(ms);
  return read();
}

/** Returns costs without what the idle stack would have used in the same time. */
export function subtractIdle(costs: StackCosts, idle: StackCosts): StackCosts {
  const share = costs.seconds / idle.seconds;
  return {
    seconds: costs.seconds,
    cpuSeconds: Object.fromEntries(
      Object.entries(costs.cpuSeconds).map(([service, used]) => [
        service,
        used - (idle.cpuSeconds[service] ?? 0) * share,
      ]),
    ),
    redisCommands: costs.redisCommands - idle.redisCommands * share,
    mongoCommands: costs.mongoCommands - idle.mongoCommands * share,
  };
}

async function readTotals({
  stack,
  redis,
  mongo,
}: StackFixture): Promise<Omit<StackCosts, 'seconds'>> {
  const cpuSeconds: Record<string, number> = {};
  for (const { service, pid } of stack.dev.processes)
    cpuSeconds[service] = (cpuSeconds[service] ?? 0) + readCpuSeconds(pid);
  const stats = await redis.info('commandstats');
  const redisCommands = [...stats.matchAll(/:calls=(\d+)/g)].reduce(
    (sum, [, calls]) => sum + Number(calls),
    0,
  );
  const { metrics } = await mongo.admin().serverStatus();
  return { cpuSeconds, redisCommands, mongoCommands: sumTotals(metrics.commands) };
}

/** Sums the fields `total` of `serverStatus().metrics.commands`, some of which are nested. */
function sumTotals(commands: unknown): number {
  if (typeof commands !== 'object' || commands === null) return 0;
  if ('total' in commands) return Number(commands.total);
  return Object.values(commands).reduce<number>((sum, one) => sum + sumTotals(one), 0);
}
