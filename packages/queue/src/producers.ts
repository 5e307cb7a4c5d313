import { createBatcher } from '@carillon/core/batcher';
import type { Channel } from '@carillon/core/channels';
import { LIMITS } from '@carillon/core/limits';
import { withTimeout } from '@carillon/core/with-timeout';
import { executePipeline } from '@carillon/presence/execute-pipeline';
import {
  createRedis,
  type OnRedisError,
  type Redis,
  type RedisAddress,
  writeProbe,
} from '@carillon/presence/redis';
import { type JobsOptions, Queue } from 'bullmq';
import { LRUCache } from 'lru-cache';
import { createAppTurns, type Turn } from './app-turns.ts';
import {
  deliverJobId,
  deliverQueueName,
  dueCheckJobId,
  NO_VERSION_CHECK,
  type PresenceJob,
  type QueueName,
  redriveJobId,
  resendJobId,
  type SendJob,
  sendJobId,
  terminateJobId,
  webhookJobId,
} from './jobs.ts';
import { probeKey, queueKey, queuePrefix } from './queue-keys.ts';
import { closeWithin } from './workers.ts';

/** Delay of a completion check, so that most receipts of the push are stored before it runs. */
const COMPLETION_CHECK_DELAY_MS = 2_000;
/** Maximum duration of adding jobs. The command timeout does not cover the wait of a client that is not ready yet. */
const ADD_TIMEOUT_MS = 600;
/** Maximum pushes of a job: few, so that several workers share a burst. */
const PUSHES_PER_JOB = 50;
const CHECKS_PER_JOB = 200;
/** Factor of the due time, in milliseconds, in BullMQ's score of a delayed job; the low 12 bits keep the order. */
const DELAYED_SCORE_FACTOR = 0x1000;
/** Time for which a completion check that was requested is not requested again: it has not run yet. */
const CHECK_DEDUP_MS = 500;
/**
 * Maximum requested checks that are remembered. An evicted entry costs a second check; the cache takes its memory at
 * the start.
 */
const MAX_RECENT_CHECKS = 10_000;

type Job = { name: string; data: object; opts: JobsOptions };

/** Options that remove a finished job at once: BullMQ silently ignores a new job whose id still exists. */
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
    /** Enqueues the page of a re-drive that follows its cursor. */
    redrive: ({ _id, cursor }: { _id: string; cursor?: string | undefined }): Promise<void> =>
      queues.addTo('redrive', {
        name: 'redrive',
        data: { redrive: _id, ...(cursor !== undefined && { cursor }) },
        opts: { ...REMOVED_WHEN_DONE, jobId: redriveJobId(_id, cursor) },
      }),
    /**
     * Counts the jobs of a queue that a worker may take. Calls at the same time share a round trip. Throws if Redis fails, or
     * takes no writes, without which no worker can take a job.
     */
    countDue: createBatcher<QueueName, number>('count-due-jobs', queues.countDue),
    close: queues.close,
  };
}

type Queues = ReturnType<typeof createQueues>;

/** A push of an app, by its id. */
interface PushOfApp {
  app: string;
  id: string;
}

/** A step of the fan-out of a push. */
interface FanOutStep extends PushOfApp {
  seq?: number;
  delayMs?: number;
  /** The reconciler adds it: it may wait already. */
  isAgain?: boolean;
}

/** A batch that may be claimed, by the id of its own or of the push that it is embedded in. */
interface PendingBatch extends PushOfApp {
  channel: Channel;
  recipients: number;
  /** The reconciler adds it: it may wait already. */
  isAgain?: boolean;
}

/** Divides pushes into those of the same job: to one device each, of one app. */
function groupPushes(pushes: readonly (PushOfApp & { recipients: number })[]) {
  const groups = Map.groupBy(pushes, ({ app, id, recipients }) => (recipients === 1 ? app : id));
  return [...groups.values()].flatMap((group) =>
    Array.from({ length: Math.ceil(group.length / PUSHES_PER_JOB) }, (_, n) =>
      group.slice(n * PUSHES_PER_JOB, (n + 1) * PUSHES_PER_JOB),
    ),
  );
}

/** Creates the producers of the jobs for the delivery of a push. */
function createPushProducers({ addTo }: Pick<Queues, 'addTo'>) {
  const addSendJob = (
    jobId: string,
    pushes: string[],
    turn: Turn,
    isSecond = false,
  ): Promise<void> => {
    const opts = { ...REMOVED_WHEN_DONE, jobId };
    const data: SendJob = { app: turn.app, pushes, ...(isSecond && { again: true }) };
    return addTo('send', { name: 'send', data, opts }, turn);
  };
  const sendBatched = createBatcher<PushOfApp & { recipients: number }, void>(
    'enqueue-push',
    async (pushes) => {
      const jobs = groupPushes(pushes).map((group) => {
        const [{ app, id } = { app: '', id: '' }] = group;
        const recipients = group.reduce((sum, push) => sum + push.recipients, 0);
        const ids = group.map((push) => push.id);
        return addSendJob(sendJobId(id, 0), ids, { app, recipients });
      });
      await Promise.all(jobs);
      return pushes.map(() => undefined);
    },
  );

  return {
    /** Enqueues a step of the fan-out of a push: the first one, unless `seq` says another. */
    fanOut: ({ app, id, seq = 0, delayMs = 0, isAgain = false }: FanOutStep): Promise<void> =>
      addTo(
        'send',
        {
          name: 'send',
          data: { fanOut: id },
          opts: { ...REMOVED_WHEN_DONE, jobId: sendJobId(id, seq, delayMs > 0), delay: delayMs },
        },
        { app, recipients: LIMITS.batchRecipients, isAgain },
      ),
    /** Enqueues the delivery of a push. Pushes of an app to one device each, of the same moment, share jobs. */
    send: (push: PushOfApp & { recipients: number }): Promise<void> => sendBatched(push),
    /**
     * Enqueues a push whose job or worker was lost, in a job of its own. While that job waits, no second one is added
     * for the same due time.
     *
     * @param at since when it is due
     * @param isFirstAttempt no worker has claimed it: the job of its acceptance probably waits
     */
    resend: ({
      app,
      id,
      at,
      isFirstAttempt = false,
    }: PushOfApp & { at: Date; isFirstAttempt?: boolean }): Promise<void> =>
      addSendJob(resendJobId(id, at), [id], { app, recipients: 1, isAgain: true }, isFirstAttempt),
    /** Enqueues the delivery of a batch. */
    deliver: ({ id, channel, ...turn }: PendingBatch): Promise<void> =>
      addTo(
        deliverQueueName(channel),
        {
          name: 'deliver',
          data: { work: id },
          opts: { ...REMOVED_WHEN_DONE, jobId: deliverJobId(id) },
        },
        turn,
      ),
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

/** Measure of a webhook's job among those of other apps: one request, and a turn of its own. */
const REPORT_WORK = 50;

/** Creates the producers of reports: to webhooks, of devices' connects, and of the use of API keys. */
function createReportProducers({ addTo }: Pick<Queues, 'addTo'>) {
  return {
    /** Enqueues reports to a webhook. Its job may wait already, and does not count for its app more than once. */
    reportToWebhook: ({ _id, app }: { _id: string; app: string }): Promise<void> =>
      addTo(
        'webhook',
        {
          name: 'webhook',
          data: { webhook: _id },
          opts: { ...REMOVED_WHEN_DONE, jobId: webhookJobId(_id) },
        },
        { app, recipients: REPORT_WORK, isAgain: true },
      ),
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
  const queues = new Map<QueueName, ReturnType<typeof openQueue>>();

  function openQueue(name: QueueName) {
    const queue = new Queue(name, {
      connection,
      prefix: queuePrefix(connection),
      streams: { events: { maxLen: 1_000 } },
      ...NO_VERSION_CHECK,
    });
    queue.on('error', onError);
    const addJob = createBatcher<Job, void>(
      'add-job',
      async (jobs) => {
        // One report for all jobs of the batch.
        await withTimeout(queue.addBulk(jobs), ADD_TIMEOUT_MS, 'Redis').catch(onError);
        return jobs.map(() => undefined);
      },
      { maxBatchSize: 200 },
    );
    const takeTurn = createAppTurns(connection, name, () => queue.waitUntilReady());
    const openedQueue = { queue, addJob, takeTurn };
    queues.set(name, openedQueue);
    return openedQueue;
  }

  return {
    /** Adds a job, which waits for the turn of its app. It may be added even if Redis's response was lost. */
    async addTo(name: QueueName, job: Job, turn?: Turn): Promise<void> {
      const { addJob, takeTurn } = queues.get(name) ?? openQueue(name);
      const priority = turn === undefined ? 0 : await takeTurn(turn);
      await addJob(priority === 0 ? job : { ...job, opts: { ...job.opts, priority } });
    },
    countDue: (names: readonly QueueName[]): Promise<number[]> =>
      Promise.all(names.map((name) => countDue(connection, name))),
    async close(): Promise<void> {
      const closed = Promise.all([...queues.values()].map(({ queue }) => queue.close()));
      await closeWithin(closed, connection, onError);
    },
  };
}

async function countDue(redis: Redis, name: QueueName): Promise<number> {
  const pipeline = redis.pipeline();
  pipeline.llen(queueKey(redis, name, 'wait'));
  pipeline.zcard(queueKey(redis, name, 'prioritized'));
  pipeline.zcount(queueKey(redis, name, 'delayed'), 0, (Date.now() + 1) * DELAYED_SCORE_FACTOR);
  pipeline.set(...writeProbe(probeKey(redis)));
  const results = await withTimeout(executePipeline(pipeline), ADD_TIMEOUT_MS, 'Redis');
  const [waiting = 0, prioritized = 0, delayed = 0] = results.map(Number);
  return waiting + prioritized + delayed;
}
