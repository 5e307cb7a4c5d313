import { executePipeline } from '@carillon/presence/execute-pipeline';
import type { Redis } from '@carillon/presence/redis';
import { QUEUE_NAMES, type QueueName } from './jobs.ts';
import { queueKey, workerKey } from './queue-keys.ts';

/** Factor of the due time, in milliseconds, by which BullMQ sorts delayed jobs; a counter is added. */
const DELAYED_SCORE_FACTOR = 0x1000;

/** Jobs that are looked at for the oldest one: of those with a priority, an app's oldest is among the first. */
const MAX_FIRST_JOBS = 20;

/** Jobs of one queue as Redis has them now. */
export interface QueueState {
  name: QueueName;
  /** Jobs that a worker may take. */
  waiting: number;
  /** Of those, the jobs that wait for the turn of their app. */
  prioritized: number;
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
 * Reads the state of all queues, each with two pipelines. A queue has a worker while the key that its workers
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
  pipeline.zcard(key('prioritized'));
  pipeline.lrange(key('wait'), -1, -1);
  pipeline.zrange(key('prioritized'), '0', String(MAX_FIRST_JOBS - 1));
  pipeline.zrange(key('delayed'), '0', '0', 'WITHSCORES');
  const row = await executePipeline(pipeline);
  const [workers, withoutPriority, active, delayed, prioritized, first, next, firstDelayed] = row;
  const added = await readTimes(
    redis,
    [first, next].flat().map((id) => key(String(id))),
  );
  const now = Date.now();
  const [, score] = firstDelayed as string[];
  // Only a worker moves a delayed job that is due to the waiting ones.
  const since = [
    ...added,
    ...(score === undefined ? [] : [Number(score) / DELAYED_SCORE_FACTOR]),
  ].filter((at) => at <= now);
  return {
    name,
    waiting: Number(withoutPriority) + Number(prioritized),
    ...{ prioritized: Number(prioritized), active: Number(active), delayed: Number(delayed) },
    oldestWaitingMs: since.length === 0 ? null : Math.round(now - Math.min(...since)),
    hasWorker: Number(workers) > 0,
  };
}

/**
 * Reads from when on jobs could have been taken: a delayed job waits since the end of its delay. Its hash has no delay
 * any more when it waits, and its options keep it. Jobs that have ended meanwhile are left out.
 */
async function readTimes(redis: Redis, jobs: readonly string[]): Promise<number[]> {
  if (jobs.length === 0) return [];
  const pipeline = redis.pipeline();
  for (const job of jobs) pipeline.hmget(job, 'timestamp', 'opts');
  const found = (await executePipeline(pipeline)) as (string | null)[][];
  return found.flatMap(([timestamp, options]) => {
    if (!timestamp) return [];
    const { delay = 0 } = JSON.parse(options ?? '{}') as { delay?: number };
    return [Number(timestamp) + delay];
  });
}
