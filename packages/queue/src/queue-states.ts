import type { Redis } from '@carillon/presence/redis';
import { QueueKeys } from 'bullmq';
import { QUEUE_NAMES, type QueueName, workerKey } from './jobs.ts';

/** BullMQ sorts delayed jobs by this multiple of their due time, plus a counter. */
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
  /** Milliseconds since when the oldest waiting job, or a delayed job that is overdue, could have been taken; null without one. */
  oldestWaitingMs: number | null;
  /** True while a worker takes the jobs of this queue. */
  hasWorker: boolean;
}

/**
 * Reads the state of all queues with two pipelines. A queue has a worker while the key that its workers renew exists:
 * unlike the names in CLIENT LIST it passes every proxy, and it costs the same however many clients Redis has.
 *
 * @throws if Redis is away
 */
export async function readQueueStates(redis: Redis): Promise<QueueState[]> {
  const keys = new QueueKeys('bull');
  const queues = redis.pipeline();
  for (const name of QUEUE_NAMES) {
    // Workers of the release before this one renew only BullMQ's own key, which sometimes lapses for 2.5 s.
    queues.exists([workerKey(name), keys.toKey(name, 'stalled-check')]);
    queues.llen(keys.toKey(name, 'wait'));
    queues.llen(keys.toKey(name, 'active'));
    queues.zcard(keys.toKey(name, 'delayed'));
    queues.lindex(keys.toKey(name, 'wait'), -1);
    queues.zrange(keys.toKey(name, 'delayed'), '0', '0', 'WITHSCORES');
  }
  const results = await execute(queues);
  const rows = QUEUE_NAMES.map((name, index) => ({
    name,
    row: results.slice(index * 6, index * 6 + 6),
  }));
  const times = redis.pipeline();
  for (const { name, row } of rows) times.hget(keys.toKey(name, String(row[4])), 'timestamp');
  const addedAt = await execute(times);
  const now = Date.now();
  return rows.map(({ name, row }, index) => {
    const [workers, waiting, active, delayed, , firstDelayed] = row;
    const added = addedAt[index];
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
  });
}

async function execute(pipeline: ReturnType<Redis['pipeline']>): Promise<unknown[]> {
  const results = (await pipeline.exec()) ?? [];
  return results.map(([error, result]) => {
    if (error) throw error;
    return result;
  });
}
