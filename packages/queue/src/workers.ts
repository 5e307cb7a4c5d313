import { Queue, Worker } from 'bullmq';
import type { z } from 'zod';
import { connectProducer, connectWorker, type OnRedisError } from './connection.ts';
import type { MaintenanceJob, QueueName } from './jobs.ts';

/** Settings shared by the workers of a process. */
export interface WorkerDeps {
  redisUrl: string;
  onError: OnRedisError;
}

/**
 * Runs the jobs of a queue. A job that throws is gone from the queue: what it should have done is still owed in
 * MongoDB, from where the reconciler adds it again.
 *
 * @returns a function that takes no more jobs, waits for those under way, and closes the links
 */
export function createWorker<S extends z.ZodType>(
  { redisUrl, onError }: WorkerDeps,
  queue: QueueName,
  schema: S,
  process: (data: z.infer<S>) => Promise<void>,
  concurrency: number,
): () => Promise<void> {
  const connection = connectWorker(redisUrl, onError);
  const worker = new Worker(queue, (job) => process(schema.parse(job.data)), {
    connection,
    concurrency,
    // A killed worker's jobs run again soon; a job run twice is harmless (claims are fenced).
    lockDuration: 5_000,
    stalledInterval: 2_500,
    maxStalledCount: 1_000,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  });
  worker.on('error', onError);
  worker.on('failed', (_, error) => onError(error));
  return async () => {
    await worker.close();
    connection.disconnect();
  };
}

const UPSERT_EVERY_MS = 5_000;

/**
 * Keeps job schedulers ticking: upserted again every 5 s, so that they tick again after Redis was emptied.
 * Several processes may keep the same ones; each tick is one job.
 *
 * @param everyMs how often each task's turn comes
 */
export function keepTicking(
  { redisUrl, onError }: WorkerDeps,
  everyMs: Record<MaintenanceJob['task'], number>,
): () => Promise<void> {
  const connection = connectProducer(redisUrl, onError);
  const ticks = new Queue<MaintenanceJob>('maintenance', { connection });
  ticks.on('error', onError);
  const opts = { removeOnComplete: true, removeOnFail: true };
  const upsert = (): void => {
    for (const [task, every] of Object.entries(everyMs)) {
      const data = { task: task as MaintenanceJob['task'] };
      ticks.upsertJobScheduler(task, { every }, { name: task, data, opts }).catch(onError);
    }
  };
  connection.once('ready', upsert);
  const timer = setInterval(upsert, UPSERT_EVERY_MS);
  return async () => {
    clearInterval(timer);
    await ticks.close();
    connection.disconnect();
  };
}
