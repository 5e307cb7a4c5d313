import { setTimeout as sleep } from 'node:timers/promises';
import type { Db } from 'mongodb';
import { percentile } from './statistics.ts';

/** Calls by command. */
export type Calls = Record<string, number>;

/** Commands of the servers of a stack: counted since their start, or in a second. */
export interface CommandCounts {
  /** Those inside scripts included. */
  redis: Calls;
  /** Statements of all clients; one that writes several documents counts once. */
  mongodb: Calls;
}

/** Connections to the servers of a stack. */
export interface CountedServers {
  mongo: Db;
  redis: { info(section: string): Promise<string> };
}

/** Commands of the drivers and of this measurement. */
const NOT_COUNTED = ['hello', 'isMaster', 'ping', 'serverStatus', 'info'];
/** Quantile of the seconds. Tasks of the stack that run every two to ten seconds leave it out. */
const QUIET = 0.1;

/**
 * Counts the commands of each second, without those of tasks that the stack runs every few seconds.
 *
 * @param task runs once in each second
 * @returns a low quantile of the seconds, by command
 */
export async function countCommands(
  servers: CountedServers,
  seconds: number,
  task: () => Promise<unknown> = async () => undefined,
): Promise<CommandCounts> {
  const readings = [await readCommands(servers)];
  for (let n = 0; n < seconds; n += 1) {
    await Promise.all([task(), sleep(1_000)]);
    readings.push(await readCommands(servers));
  }
  return {
    redis: findRates(readings.map(({ redis }) => redis)),
    mongodb: findRates(readings.map(({ mongodb }) => mongodb)),
  };
}

/** Computes the commands of one push, those of the idle stack subtracted, by command and in all (`all`). */
export function perPush(calls: Calls, idle: Calls, pushesPerSecond: number): Calls {
  const counts = Object.entries(calls)
    .map(([name, count]): [string, number] => [
      name,
      Math.max(0, count - (idle[name] ?? 0)) / pushesPerSecond,
    ])
    .filter(([, count]) => count >= 0.005);
  const all = sumCalls(Object.fromEntries(counts));
  return Object.fromEntries(
    [...counts, ['all', all] as const].map(([name, count]) => [name, Number(count.toFixed(2))]),
  );
}

/** Adds up the calls of all commands. */
function sumCalls(calls: Calls): number {
  return Object.values(calls).reduce((sum, count) => sum + count, 0);
}

/** Finds the rate of each command in readings of its total. */
function findRates(totals: readonly Calls[]): Calls {
  const increasesOf = (name: string) =>
    totals.slice(1).map((after, n) => (after[name] ?? 0) - (totals[n]?.[name] ?? 0));
  return Object.fromEntries(
    Object.keys(totals.at(-1) ?? {}).map((name) => [name, percentile(increasesOf(name), QUIET)]),
  );
}

/** Reads the commands that the servers have executed since their start. */
async function readCommands({ redis, mongo }: CountedServers): Promise<CommandCounts> {
  const lines = (await redis.info('commandstats')).matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
  const { metrics } = await mongo.admin().serverStatus();
  const commands = Object.entries<{ total?: number }>(metrics.commands);
  return {
    redis: pickCounted([...lines].map(([, name = '', calls]) => [name, Number(calls)])),
    mongodb: pickCounted(commands.map(([name, { total = 0 }]) => [name, Number(total)])),
  };
}

function pickCounted(calls: [name: string, count: number][]): Calls {
  return Object.fromEntries(calls.filter(([name]) => !NOT_COUNTED.includes(name)));
}
