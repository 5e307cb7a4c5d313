import type { StackOptions } from '../stack/env.ts';
import { startRedisCluster } from './redis-cluster.ts';
import { startSentinelSet } from './sentinel-set.ts';

/** The Redis of a stack, which the stack does not run itself. */
export interface StackRedis {
  env: { REDIS_URL: string };
  remove(): Promise<void>;
}

interface Servers {
  url: string;
  remove(): Promise<void>;
}

/** Topologies of `npm test -- --topology NAME`. */
const TOPOLOGIES: Record<string, (options: { isLent: boolean }) => Promise<Servers>> = {
  // With replicas, without which the doctor finds it unwell.
  cluster: startRedisCluster,
  sentinel: startSentinelSet,
};

/**
 * Starts the Redis of a stack on the topology of this run.
 *
 * @returns undefined if the stack runs a Redis itself, or the test has one
 */
export async function startStackRedis(
  { env }: Pick<StackOptions, 'env'>,
  isLent: boolean,
): Promise<StackRedis | undefined> {
  const start = TOPOLOGIES[process.env.CARILLON_TEST_TOPOLOGY ?? ''];
  if (start === undefined || env?.REDIS_URL !== undefined) return undefined;
  const { url, remove } = await start({ isLent });
  return { env: { REDIS_URL: url }, remove };
}
