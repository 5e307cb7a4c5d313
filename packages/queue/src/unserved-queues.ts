import {
  createRedis,
  type OnRedisError,
  type Redis,
  type RedisAddress,
} from '@carillon/presence/redis';
import type { QueueName } from './jobs.ts';
import { readQueueStates } from './queue-states.ts';

/** Age in milliseconds of the oldest waiting job of each queue that no worker takes; 0 for all others. */
export type UnservedAges = Record<QueueName, number>;

/**
 * Reads which queues have jobs and no worker.
 *
 * @throws if Redis is unavailable
 */
async function readUnservedAges(redis: Redis): Promise<UnservedAges> {
  const states = await readQueueStates(redis);
  const entries = states.map(({ name, hasWorker, oldestWaitingMs }) => [
    name,
    hasWorker ? 0 : (oldestWaitingMs ?? 0),
  ]);
  return Object.fromEntries(entries) as UnservedAges;
}

/** Opens a connection for reading which queues have jobs and no worker. */
export function createUnservedQueues(server: RedisAddress, onError: OnRedisError) {
  const redis = createRedis(server, 'command', onError);
  return {
    /** Reads the age of each queue's oldest waiting job. Throws if Redis is unavailable. */
    readAges: (): Promise<UnservedAges> => readUnservedAges(redis),
    close: (): void => redis.disconnect(),
  };
}
