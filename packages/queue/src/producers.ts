import { createBatcher } from '@carillon/core/batcher';
import type { Channel } from '@carillon/core/channels';
import { pushStartMs } from '@carillon/core/ids';
import { withTimeout } from '@carillon/core/with-timeout';
import {
  createRedis,
  type OnRedisError,
  type Redis,
  type RedisAddress,
  writeProbe,
} from '@carillon/presence/redis';
import { type JobsOptions, Queue } from 'bullmq';
import { LRUCache } from 'lru-cache';
import {
  deliverJobId,
  deliverQueueName,
  dueCheckJobId,
  dueMsOfSendJob,
  NO_VERSION_CHECK,
  type PresenceJob,
  type QueueName,
  resendJobId,
  sendJobId,
  terminateJobId,
  webhookJobId,
} from './jobs.ts';
import type { JoinedContents, JoinedPush } from './joined-push.ts';
import { createJoiner } from './joiner.ts';
import { CALL_ENTRIES, readOldestJoined } from './open-job.ts';
import { probeKey, queueKey, queuePrefix, resendKey } from './queue-keys.ts';
import { closeWithin } from './workers.ts';

/** Delay of a completion check, so that most receipts of the push are stored before it runs. */
const COMPLETION_CHECK_DELAY_MS = 2_000;
/** The command timeout does not cover the wait of a client that is not ready yet. */
const ADD_TIMEOUT_MS = 600;
/** Embedded pushes per job: few, so that several workers share a burst. */
const EMBEDDED_PER_JOB = 50;
const CHECKS_PER_JOB = 200;
/** BullMQ's score of a delayed job: its time in milliseconds, then 12 bits that keep the order. */
const DELAYED_SCORE_FACTOR = 0x1000;
/** After a pause of this length no open job is looked up: it is closed, and the lookup would cost a round trip. */
const JOIN_WITHIN_MS = 5_000;
/** A push that is inserted now probably joins an open job, if one did so recently: half of the time until it is closed. */
const RECENT_JOIN_MS = 500;
/** A due time for which a job was added this recently gets no other one: the job may wait behind others. */
const RESEND_DEDUP_MS = 5_000;
/** A completion check requested this recently is not requested again: it has not run yet. */
const CHECK_DEDUP_MS = 500;
/** An evicted entry costs a second check; the cache takes its memory at the start. */
const MAX_RECENT_CHECKS = 10_000;

type Job = { name: string; data: object; opts: JobsOptions };

/** A finished job is removed at once: BullMQ silently ignores a new job whose id still exists. */
const REMOVED_WHEN_DONE = { removeOnComplete: true, removeOnFail: true, attempts: 1 } as const;

/** Adds jobs to the queues. */
export type Producers = ReturnType<typeof createProducers>;

/**
 * Creates the producers of a process. Jobs added at the same time share round trips. No function that adds jobs throws, or waits
 * longer than 600 ms for a round trip: the reconciler finds a job that Redis did not accept again in MongoDB.
 */
export function createProducers(redis: RedisAddress, onError: OnRedisError) {
  const queues = createQueues(redis, onError);
  return {
    ...createPushProducers(queues),
    ...createFinishProducers(queues),
    ...createReportProducers(queues),
    /**
     * Counts the jobs of a queue that a worker may take. Calls at the same time share a round trip. Throws if Redis fails, or
     * takes no writes, without which no worker can take a job.
     */
    countDue: createBatcher<QueueName, number>('count-due-jobs', queues.countDue),
    close: queues.close,
  };
}

type Queues = ReturnType<typeof createQueues>;

interface DuePush {
  push: string;
  dueAt: Date;
}

/** Creates the producers of the jobs for the delivery of a push. */
function createPushProducers({
  tryAddTo,
  addTo,
  joiner,
  resentMarks,
  readOldestMs,
}: Pick<Queues, 'tryAddTo' | 'addTo' | 'joiner' | 'resentMarks' | 'readOldestMs'>) {
  let lastPushAt = Number.NEGATIVE_INFINITY;
  /** Time of the last join, if few entries waited then. */
  let joinedAt = Number.NEGATIVE_INFINITY;

  const addSendJob = (jobId: string, lone: string[]): Promise<boolean> =>
    tryAddTo('send', { name: 'send', data: { lone }, opts: { ...REMOVED_WHEN_DONE, jobId } });

  /** Adds pushes to an open job. False: they need a job. If Redis fails, the reconciler adds one later. */
  async function joinAll(pushes: readonly JoinedPush[]): Promise<boolean> {
    const waiting = await joiner.join(pushes);
    joinedAt = waiting > 0 && waiting < CALL_ENTRIES ? performance.now() : Number.NEGATIVE_INFINITY;
    return waiting !== 0;
  }

  const sendBatched = createBatcher<JoinedPush, boolean>(
    'enqueue-push',
    async (pushes) => {
      joiner.open();
      const mayJoin = performance.now() - lastPushAt < JOIN_WITHIN_MS;
      lastPushAt = performance.now();
      if (mayJoin && (await joinAll(pushes))) return pushes.map(() => true);
      const unclaimed = pushes.flatMap(({ id, contents }) => (contents === undefined ? id : []));
      const [first] = unclaimed;
      if (first !== undefined) await addSendJob(sendJobId(first, 0), unclaimed);
      return pushes.map(({ contents }) => contents === undefined);
    },
    { maxBatchSize: EMBEDDED_PER_JOB },
  );

  /** Adds a job for some pushes. If Redis does not accept it, they get no mark: the next tick adds one. */
  async function resendTogether(due: readonly [DuePush, ...DuePush[]]): Promise<void> {
    const [first] = due;
    const pushes = due.map(({ push }) => push);
    // Marked afterwards: Redis may run a command whose response is lost, and a mark without a job delays the push.
    if (await addSendJob(resendJobId(first.push, first.dueAt), pushes)) await resentMarks.set(due);
  }

  const resendBatched = createBatcher<DuePush, void>('enqueue-push', async (due) => {
    const unmarked = await resentMarks.listUnmarked(due);
    const jobs: Promise<void>[] = [];
    for (let from = 0; from < unmarked.length; from += EMBEDDED_PER_JOB) {
      const [first, ...others] = unmarked.slice(from, from + EMBEDDED_PER_JOB);
      if (first !== undefined) jobs.push(resendTogether([first, ...others]));
    }
    await Promise.all(jobs);
    return due.map(() => undefined);
  });

  return {
    /** Enqueues a step of the fan-out of a push. */
    fanOut: (
      push: string,
      { seq, delayMs = 0 }: { seq: number; delayMs?: number } = { seq: 0 },
    ): Promise<void> =>
      addTo('send', {
        name: 'send',
        data: { fanOut: push },
        opts: { ...REMOVED_WHEN_DONE, jobId: sendJobId(push, seq, delayMs > 0), delay: delayMs },
      }),
    /**
     * Enqueues the delivery of a push with an embedded batch. It joins an open job, or shares a new one with the pushes of
     * the same moment.
     *
     * @param contents of a push that was inserted with a claim. A job holds none: if the push can't join, nothing is enqueued
     * @returns whether it was enqueued
     */
    sendEmbedded: (id: string, contents?: JoinedContents): Promise<boolean> =>
      sendBatched({ id, contents }),
    /** Checks whether a push that is inserted now is likely to join an open job whose workers keep up. */
    hasOpenJob: (): boolean => performance.now() - joinedAt < RECENT_JOIN_MS,
    /**
     * Enqueues it with a job of the queue, at most every 5 s for the same due time: for a push whose first job, or the worker
     * of it, was lost. The marks are lost with the jobs.
     */
    resendEmbedded: (push: string, dueAt: Date): Promise<void> => resendBatched({ push, dueAt }),
    /**
     * Reads since when the next push for the workers of the queue `send` is due, in milliseconds since 1970: those that are
     * due later may wait behind it. Infinity if none waits, or Redis fails.
     */
    readOldestWaitingMs: readOldestMs,
    /** Enqueues the delivery of a batch. */
    deliver: (work: string, channel: Channel): Promise<void> =>
      addTo(deliverQueueName(channel), {
        name: 'deliver',
        data: { work },
        opts: { ...REMOVED_WHEN_DONE, jobId: deliverJobId(work) },
      }),
    /** Enqueues a check for due pushes, to run after `afterMs`, just after a Unix second. */
    scheduleDueCheck: (second: number, afterMs: number): Promise<void> =>
      addTo('maintenance', {
        name: 'reconcile',
        data: { task: 'reconcile' },
        opts: { ...REMOVED_WHEN_DONE, jobId: dueCheckJobId(second), delay: afterMs },
      }),
  };
}

/** Creates the producers of the queue that ends pushes. */
function createFinishProducers({ addTo }: Pick<Queues, 'addTo'>) {
  const checkBatched = createBatcher<string, void>(
    'enqueue-completion-check',
    async (pushes) => {
      const opts = { ...REMOVED_WHEN_DONE, delay: COMPLETION_CHECK_DELAY_MS };
      await addTo('finish', { name: 'finish', data: { pushes }, opts });
      return pushes.map(() => undefined);
    },
    { maxBatchSize: CHECKS_PER_JOB },
  );
  const recentChecks = new LRUCache<string, true>({ max: MAX_RECENT_CHECKS, ttl: CHECK_DEDUP_MS });

  function isFirstRequest(push: string): boolean {
    if (recentChecks.has(push)) return false;
    recentChecks.set(push, true);
    return true;
  }

  return {
    /** Enqueues a check, in 2 s, whether these pushes are complete. */
    async checkCompletion(pushes: readonly string[]): Promise<void> {
      await Promise.all(pushes.filter(isFirstRequest).map((push) => checkBatched(push)));
    },
    /** Enqueues the termination of pushes that have expired or were deleted. */
    async terminate(pushes: readonly string[]): Promise<void> {
      await Promise.all(
        pushes.map((push) => {
          const opts = {
            ...REMOVED_WHEN_DONE,
            jobId: terminateJobId(push),
            delay: COMPLETION_CHECK_DELAY_MS,
          };
          return addTo('finish', { name: 'finish', data: { pushes: [push] }, opts });
        }),
      );
    },
  };
}

/** Creates the producers of reports: to webhooks, of devices' connects, and of the use of API keys. */
function createReportProducers({ addTo }: Pick<Queues, 'addTo'>) {
  return {
    /** Enqueues reports to a webhook. */
    reportToWebhook: (webhook: string): Promise<void> =>
      addTo('webhook', {
        name: 'webhook',
        data: { webhook },
        opts: { ...REMOVED_WHEN_DONE, jobId: webhookJobId(webhook) },
      }),
    /** Enqueues connects and disconnects of devices. */
    publishPresence: (events: PresenceJob['events']): Promise<void> =>
      addTo('presence', {
        name: 'presence',
        data: { events, keys: [] },
        opts: { ...REMOVED_WHEN_DONE },
      }),
    /** Enqueues uses of API keys, by the keys' ids. */
    publishKeyUses: (keys: PresenceJob['keys']): Promise<void> =>
      addTo('presence', {
        name: 'presence',
        data: { events: [], keys },
        opts: { ...REMOVED_WHEN_DONE },
      }),
  };
}

/** Opens queues on first use, over one connection. */
function createQueues(redis: RedisAddress, onError: OnRedisError) {
  const connection = createRedis(redis, 'producer', onError);
  const queues = new Map<QueueName, { queue: Queue; addJob: (job: Job) => Promise<boolean> }>();
  const joiner = createJoiner(redis, onError, ADD_TIMEOUT_MS);

  function openQueue(name: QueueName) {
    const queue = new Queue(name, {
      connection,
      prefix: queuePrefix(connection, name),
      streams: { events: { maxLen: 1_000 } },
      ...NO_VERSION_CHECK,
    });
    queue.on('error', onError);
    const addJob = createBatcher<Job, boolean>(
      'add-job',
      async (jobs) => {
        // One report for all jobs of the batch.
        const added = await withTimeout(queue.addBulk(jobs), ADD_TIMEOUT_MS, 'Redis').catch(
          (error: Error) => void onError(error),
        );
        return jobs.map(() => added !== undefined);
      },
      { maxBatchSize: 200 },
    );
    const openedQueue = { queue, addJob };
    queues.set(name, openedQueue);
    return openedQueue;
  }

  const tryAddTo = (name: QueueName, job: Job): Promise<boolean> =>
    (queues.get(name) ?? openQueue(name)).addJob(job);

  return {
    joiner,
    resentMarks: createResentMarks(connection, onError),
    readOldestMs: (): Promise<number> =>
      withTimeout(readOldestWaitingMs(connection), ADD_TIMEOUT_MS, 'Redis').catch(
        (error: Error) => {
          onError(error);
          return Number.POSITIVE_INFINITY;
        },
      ),
    /** Adds a job. Returns whether Redis has accepted it; if not, it may still do so later. */
    tryAddTo,
    async addTo(name: QueueName, job: Job): Promise<void> {
      await tryAddTo(name, job);
    },
    countDue: (names: readonly QueueName[]): Promise<number[]> =>
      Promise.all(names.map((name) => countDue(connection, name))),
    async close(): Promise<void> {
      await joiner.close();
      const closed = Promise.all([...queues.values()].map(({ queue }) => queue.close()));
      await closeWithin(closed, connection, onError);
    },
  };
}

/** Creates the access to the marks of pushes that got a job again. */
function createResentMarks(connection: Redis, onError: OnRedisError) {
  /** Returns the responses; undefined if Redis fails. */
  async function run(pipeline: ReturnType<Redis['pipeline']>): Promise<unknown[] | undefined> {
    try {
      const results = await withTimeout(pipeline.exec(), ADD_TIMEOUT_MS, 'Redis');
      return results?.map(([error, response]) => {
        if (error) throw error;
        return response;
      });
    } catch (error) {
      onError(error as Error);
      return undefined;
    }
  }

  return {
    /** Returns the pushes that have no mark; none if Redis fails. */
    async listUnmarked(due: readonly DuePush[]): Promise<DuePush[]> {
      const pipeline = connection.pipeline();
      for (const { push, dueAt } of due) pipeline.exists(resendKey(connection, push, dueAt));
      const isMarked = await run(pipeline);
      return due.filter((_, index) => isMarked?.[index] === 0);
    },
    /** Marks pushes. If Redis fails they get another job, in which they are found claimed. */
    async set(due: readonly DuePush[]): Promise<void> {
      const pipeline = connection.pipeline();
      for (const { push, dueAt } of due)
        pipeline.set(resendKey(connection, push, dueAt), 1, 'PX', RESEND_DEDUP_MS);
      await run(pipeline);
    },
  };
}

/** Jobs wait in the queue, and pushes that joined an open job wait for it. Both are taken in their order. */
async function readOldestWaitingMs(redis: Redis): Promise<number> {
  const [jobId, joined] = await Promise.all([
    redis.lindex(queueKey(redis, 'send', 'wait'), -1),
    readOldestJoined(redis),
  ]);
  const joinedMs = joined === undefined ? undefined : pushStartMs(joined);
  const dueMs = [dueMsOfSendJob(jobId ?? ''), joinedMs].filter((ms) => ms !== undefined);
  return Math.min(...dueMs);
}

async function countDue(redis: Redis, name: QueueName): Promise<number> {
  const pipeline = redis.pipeline();
  pipeline.llen(queueKey(redis, name, 'wait'));
  pipeline.zcount(queueKey(redis, name, 'delayed'), 0, (Date.now() + 1) * DELAYED_SCORE_FACTOR);
  pipeline.set(...writeProbe(probeKey(redis, name)));
  const results = await withTimeout(pipeline.exec(), ADD_TIMEOUT_MS, 'Redis');
  const [waiting, delayed] = (results ?? []).map(([error, count]) => {
    if (error) throw error;
    return Number(count);
  });
  return (waiting ?? 0) + (delayed ?? 0);
}
