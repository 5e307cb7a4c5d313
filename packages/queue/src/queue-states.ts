import type { Redis } from '@carillon/presence/redis';
import { QUEUE_NAMES, type QueueName } from './jobs.ts';
import { queueKey, workerKey } from './queue-keys.ts';

/** Factor of the due time, in milliseconds, by which BullMQ sorts delayed jobs; a counter is added. */
const DELAYED_SCORE_FACTOR = 0x1000;

/** Jobs of one queue as Redis has them now. */
export interface QueueState {
  name: QueueName;
  /** Jobs that a worker may take. */
  waiting: number;
  /** Jobs that a worker has taken. */
  active: number;
  /** Jobs whose time has not come. */
  delayed: number;
  /**
   * Milliseconds for which the oldest waiting job, or an overdue delayed job, could have been taken; null without one.
   */
  oldestWaitingMs: number | null;
  /** True while a worker takes the jobs of this queue. */
  hasWorker: boolean;
}

/**
 * Reads the state of all queues, each with one pipeline and one command. A queue has a worker while the key that its workers
 * renew exists.
 *
 * @throws if Redis is unavailable
 */
export function readQueueStates(redis: Redis): Promise<QueueState[]> {
  return Promise.all(QUEUE_NAMES.map((name) => readQueueState(redis, name)));
}

async function readQueueState(redis: Redis, name: QueueName): Promise<QueueState> {
  const key = (part: string) => queueKey(redis, name, part);
  const pipeline = redis.pipeline();
  pipeline.exists(workerKey(redis, name));
  pipeline.llen(key('wait'));
  pipeline.llen(key('active'));
  pipeline.zcard(key('delayed'));
  pipeline.lindex(key('wait'), -1);
  pipeline.zrange(key('delayed'), '0', '0', 'WITHSCORES');
  const row = await execute(pipeline);
  const [workers, waiting, active, delayed, oldestId, firstDelayed] = row;
  const added = oldestId === null ? null : await redis.hget(key(String(oldestId)), 'timestamp');
  const now = Date.now();
  const [, score] = firstDelayed as string[];
  // Only a worker moves a delayed job that is due to the waiting ones.
  const since = [
    ...(added === null ? [] : [Number(added)]),
    ...(score === undefined ? [] : [Number(score) / DELAYED_SCORE_FACTOR]),
  ].filter((at) => at <= now);
  return {
    name,
    ...{ waiting: Number(waiting), active: Number(active), delayed: Number(delayed) },
    oldestWaitingMs: since.length === 0 ? null : Math.round(now - Math.min(...since)),
    hasWorker: Number(workers) > 0,
  };
}

async function execute(pipeline: ReturnType<Redis['pipeline']>): Promise<unknown[]> {
  const results = (await pipeline.exec()) ?? [];
  return results.map(([error, result]) => {
    if (error) throw error;
    return result;
  });
}
