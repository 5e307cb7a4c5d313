import { startInterval } from '@carillon/core/intervals';
import { countJobTaken } from '@carillon/core/process-counts';
import { resultWithin } from '@carillon/core/with-timeout';
import {
  createRedis,
  type OnRedisError,
  type Redis,
  type RedisAddress,
} from '@carillon/presence/redis';
import { type Job, type JobJson, Worker } from 'bullmq';
import type { z } from 'zod';
import type { QueueName } from './jobs.ts';
import { queuePrefix, workerKey } from './queue-keys.ts';

/**
 * Maximum wait for Redis to record the end of the last jobs. Nothing is lost without it: MongoDB has their results, and
 * a job that Redis still has is delivered again and finds its work settled.
 */
const CLOSE_TIMEOUT_MS = 1_000;

/** Settings shared by the workers of a process. */
export interface WorkerSettings {
  redis: RedisAddress;
  onError: OnRedisError;
}

/** A running worker of a queue. */
export interface QueueWorker {
  queue: QueueName;
  /** Returns when it last took a job or had no free slot, by the monotonic clock (`performance.now()`). */
  lastProgressAt(): number;
  /** Stops taking jobs, waits for those in progress, at most 1 s for Redis, and closes the connections. */
  stop(): Promise<void>;
}

/**
 * Takes a job whose data are no JSON like any other invalid job. BullMQ's worker fails before it knows the job: it would
 * stay in the queue for hours, taken again whenever its lock ends, and the reconciler could add no job with its id.
 */
class JobWorker extends Worker {
  protected override createJob(json: JobJson, id: string): Job {
    try {
      return super.createJob(json, id);
    } catch {
      return super.createJob({ ...json, data: 'null' }, id);
    }
  }
}

/** Maximum fields that the error of an invalid job names; a job may have a million wrong fields. */
const MAX_NAMED_FIELDS = 3;

/**
 * Parses the data of a job.
 *
 * @throws Error that names the invalid fields, but not their values
 */
function parseJob<S extends z.ZodType>(queue: QueueName, schema: S, data: unknown): z.infer<S> {
  const parsed = schema.safeParse(data);
  if (parsed.success) return parsed.data;
  const fields = parsed.error.issues
    .slice(0, MAX_NAMED_FIELDS)
    .map(({ path }) => ['data', ...path].join('.'));
  throw new Error(`invalid job in the queue ${queue}: ${fields.join(', ')}`);
}

/**
 * Processes the jobs of a queue. A failed or invalid job is removed from the queue; its work is still pending in MongoDB,
 * and the reconciler enqueues it again.
 */
export function createWorker<S extends z.ZodType>(
  { redis, onError }: WorkerSettings,
  queue: QueueName,
  schema: S,
  process: (data: z.infer<S>) => Promise<void>,
  concurrency: number,
): QueueWorker {
  const connection = createRedis(redis, 'worker', onError);
  let activeJobs = 0;
  let lastProgressAt = performance.now();
  let idle: PromiseWithResolvers<void> | undefined;
  async function processJob(data: unknown): Promise<void> {
    activeJobs += 1;
    countJobTaken(queue);
    lastProgressAt = performance.now();
    try {
      await process(parseJob(queue, schema, data));
    } finally {
      // A slot is free again only now: from here on the worker is expected to take a job.
      if (activeJobs === concurrency) lastProgressAt = performance.now();
      activeJobs -= 1;
      if (activeJobs === 0) {
        idle?.resolve();
        idle = undefined;
      }
    }
  }
  async function waitForJobs(): Promise<void> {
    if (activeJobs === 0) return;
    idle ??= Promise.withResolvers();
    await idle.promise;
  }
  const worker = new JobWorker(queue, (job) => processJob(job.data), {
    connection,
    prefix: queuePrefix(connection),
    concurrency,
    // A killed worker's jobs are retried soon. Running a job twice is harmless, because claims are fenced.
    lockDuration: 5_000,
    // A job is retried by the second check after its worker was killed. BullMQ leaves out each tenth, as it is a moment early.
    stalledInterval: 4_000,
    // After an error of Redis, such as those of a failover, the next job is fetched soon.
    runRetryDelay: 1_000,
    maxStalledCount: 1_000,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  });
  worker.on('error', onError);
  worker.on('failed', (_, error) => onError(error));
  const unregister = registerWorker(connection, queue, onError);
  return {
    queue,
    lastProgressAt: () => (activeJobs < concurrency ? lastProgressAt : performance.now()),
    async stop() {
      unregister();
      const closed = worker
        .close()
        .catch(onError)
        .then(() => true);
      // A pending response of Redis may contain one more job, which begins when the others have ended.
      do await waitForJobs();
      while (!(await resultWithin(closed, CLOSE_TIMEOUT_MS, false)) && activeJobs > 0);
      connection.disconnect();
    },
  };
}

/** Waits for a worker or queue to close, which without Redis it never does, and closes its connection. */
export async function closeWithin(
  closed: Promise<unknown>,
  connection: Pick<Redis, 'disconnect'>,
  onError: OnRedisError,
): Promise<void> {
  await resultWithin(closed, CLOSE_TIMEOUT_MS, undefined).catch(onError);
  connection.disconnect();
}

/** Interval between two registrations of a worker. */
const REGISTER_EVERY_MS = 5_000;
/** Lifetime of a registration: longer than a restart of the only worker. */
const REGISTERED_MS = 15_000;

/**
 * Renews the key that shows that the queue has a worker. BullMQ's list of workers is CLIENT LIST: a frozen process stays in it,
 * some proxies and managed servers hide the names, and its cost grows with all clients.
 */
function registerWorker(connection: Redis, queue: QueueName, onError: OnRedisError): () => void {
  const register = (): void => {
    // While Redis is unavailable, the connection would queue every call.
    if (connection.status !== 'ready') return;
    connection.set(workerKey(connection, queue), 1, 'PX', REGISTERED_MS).catch(onError);
  };
  connection.on('ready', register);
  return startInterval(register, REGISTER_EVERY_MS);
}
