import {
  createRedis,
  type OnRedisError,
  type Redis,
  type RedisAddress,
} from '@carillon/presence/redis';
import { QueueKeys } from 'bullmq';
import { QUEUE_NAMES, type QueueName, workerKey } from './jobs.ts';

/** BullMQ sorts delayed jobs by this multiple of their due time, plus a counter. */
const DELAYED_SCORE_FACTOR = 0x1000;

/** Age in milliseconds of the oldest waiting job of each queue that no worker takes; 0 for all others. */
export type UnservedAges = Record<QueueName, number>;

/**
 * Reads which queues have jobs and no worker. A queue has a worker while the key that its workers renew exists: unlike
 * the names in CLIENT LIST it passes every proxy, and it costs the same however many clients Redis has.
 *
 * @throws if Redis is away
 */
async function readUnservedAges(redis: Redis): Promise<UnservedAges> {
  const keys = new QueueKeys('bull');
  const queues = redis.pipeline();
  for (const name of QUEUE_NAMES) {
    // Workers of the release before this one renew only BullMQ's own key, which sometimes lapses for 2.5 s.
    queues.exists([workerKey(name), keys.toKey(name, 'stalled-check')]);
    queues.lindex(keys.toKey(name, 'wait'), -1);
    queues.zrange(keys.toKey(name, 'delayed'), '0', '0', 'WITHSCORES');
  }
  const results = await execute(queues);
  const times = redis.pipeline();
  for (const [index, name] of QUEUE_NAMES.entries()) {
    times.hget(keys.toKey(name, String(results[index * 3 + 1])), 'timestamp');
  }
  const addedAt = await execute(times);
  const now = Date.now();
  const entries = QUEUE_NAMES.map((name, index) => {
    const [workers, , delayed] = results.slice(index * 3, index * 3 + 3);
    if (Number(workers) > 0) return [name, 0];
    // Only a worker moves a delayed job that is due to the waiting ones.
    const [, score] = delayed as string[];
    const dueAt = score === undefined ? now : Number(score) / DELAYED_SCORE_FACTOR;
    const waitsSince = Math.min(Number(addedAt[index] ?? now), dueAt);
    return [name, Math.max(0, now - waitsSince)];
  });
  return Object.fromEntries(entries) as UnservedAges;
}

async function execute(pipeline: ReturnType<Redis['pipeline']>): Promise<unknown[]> {
  const results = (await pipeline.exec()) ?? [];
  return results.map(([error, result]) => {
    if (error) throw error;
    return result;
  });
}

/** Opens a connection for reading which queues have jobs and no worker. */
export function createUnservedQueues(server: RedisAddress, onError: OnRedisError) {
  const redis = createRedis(server, 'command', onError);
  return {
    /** Reads the age of each queue's oldest waiting job. Throws if Redis is away. */
    readAges: (): Promise<UnservedAges> => readUnservedAges(redis),
    close: (): void => redis.disconnect(),
  };
}

/**
 * Reads the ages once, over a connection of its own.
 *
 * @throws if the server does not respond within about 2 s
 */
export async function fetchUnservedAges(server: RedisAddress): Promise<UnservedAges> {
  const redis = createRedis(server, 'probe', () => undefined);
  try {
    await redis.connect();
    return await readUnservedAges(redis);
  } finally {
    redis.disconnect();
  }
}
