import { CHANNELS } from '@carillon/core/channels';
import type { Tracer } from '@carillon/core/tracing';
import {
  deliverQueueName,
  jobSchemas,
  type RedriveJob,
  type SendJob,
  type WorkerQueue,
} from '@carillon/queue/jobs';
import { createWorker, type QueueWorker, type WorkerSettings } from '@carillon/queue/workers';
import type { Activity } from '@carillon/store/devices';
import type { KeyUse } from '@carillon/store/keys';
import { createSemaphore } from './deliver/semaphore.ts';

/** Batches of a provider's channel wait for a remote server, and one app's must not delay those of others. */
const PROVIDER_CONCURRENCY = 500;
const PRESENCE_CONCURRENCY = 2;
/** Maximum webhooks that get requests at once: a receiver that does not respond holds a slot for seconds. */
const WEBHOOK_CONCURRENCY = 200;
/** Maximum re-drives that are worked on at once: they take turns, a page each. */
const REDRIVE_CONCURRENCY = 2;
/** Ratio of pushes with an embedded batch in progress, and of jobs that check pushes, to batches: they are small. */
const SMALL_FACTOR = 8;

type DeliverQueue = ReturnType<typeof deliverQueueName>;
/** A job of pushes with an embedded batch. */
type PushesJob = Extract<SendJob, { pushes: string[] }>;

/** Processors of the queues' jobs. */
export interface Processors {
  fanOut(push: string): Promise<void>;
  /** Returns the context of the batch's span, if the push is traced. */
  deliver(id: string): Promise<string | undefined>;
  checkCompletion(push: string): Promise<void>;
  recordActivity(activities: readonly Activity[]): Promise<void>;
  recordKeyUses(uses: readonly KeyUse[]): Promise<void>;
  /** Reports due events to a webhook; absent if the process takes no jobs of webhooks. */
  reportToWebhook?: ((webhook: string) => Promise<void>) | undefined;
  /** Sends a page of a re-drive. */
  redrive(page: RedriveJob): Promise<void>;
  /** Records the jobs that several traced pushes share. */
  tracer?: Tracer | undefined;
}

/**
 * Starts the workers of the queues that the process takes.
 *
 * @param concurrency jobs of each queue in progress at once
 * @returns the worker of each queue
 */
export function startWorkers(
  worker: WorkerSettings,
  processors: Processors,
  queues: readonly WorkerQueue[],
  concurrency: number,
): QueueWorker[] {
  const { deliver, checkCompletion, recordActivity, recordKeyUses, reportToWebhook, redrive } =
    processors;
  const starts: Record<Exclude<WorkerQueue, DeliverQueue>, () => QueueWorker> = {
    send: () => startSending(worker, processors, concurrency * SMALL_FACTOR),
    finish: () =>
      createWorker(
        worker,
        'finish',
        jobSchemas.finish,
        async ({ pushes }) => void (await Promise.all(pushes.map(checkCompletion))),
        concurrency * SMALL_FACTOR,
      ),
    presence: () =>
      createWorker(
        worker,
        'presence',
        jobSchemas.presence,
        async ({ events, keys }) => {
          await recordActivity(events.map(([token, at]) => ({ token, at })));
          await recordKeyUses(keys.map(([id, at]) => ({ id, at })));
        },
        PRESENCE_CONCURRENCY,
      ),
    webhook: () =>
      createWorker(
        worker,
        'webhook',
        jobSchemas.webhook,
        async ({ webhook }) => void (await reportToWebhook?.(webhook)),
        WEBHOOK_CONCURRENCY,
      ),
    redrive: () =>
      createWorker(worker, 'redrive', jobSchemas.redrive, redrive, REDRIVE_CONCURRENCY),
  };
  const startDeliver = (queue: DeliverQueue) =>
    createWorker(
      worker,
      queue,
      jobSchemas.deliver,
      async ({ work }) => void (await deliver(work)),
      queue === deliverQueueName('mqtt') ? concurrency : PROVIDER_CONCURRENCY,
    );
  return queues.map((queue) => (isDeliverQueue(queue) ? startDeliver(queue) : starts[queue]()));
}

const DELIVER_QUEUES: ReadonlySet<string> = new Set(CHANNELS.map(deliverQueueName));

function isDeliverQueue(queue: WorkerQueue): queue is DeliverQueue {
  return DELIVER_QUEUES.has(queue);
}

/** Starts the worker of the queue `send`, which delivers pushes with an embedded batch and fans out all others. */
function startSending(
  worker: WorkerSettings,
  { fanOut, deliver, tracer }: Pick<Processors, 'fanOut' | 'deliver' | 'tracer'>,
  concurrency: number,
): QueueWorker {
  // A job has many pushes, and a device that does not respond holds its job: both are bounded.
  const slots = createSemaphore(concurrency);
  // Most pushes that get a second job are done by then: it ends at once, and does not wait behind the others of the app.
  const slotsAgain = createSemaphore(Math.ceil(concurrency / SMALL_FACTOR));
  /** Pushes that have a slot or wait for one: another job of such a push would wait as well, and hold a job's place. */
  const taken = new Set<string>();
  async function deliverWithSlot(
    id: string,
    { app, again }: Pick<PushesJob, 'app' | 'again'>,
  ): Promise<string | undefined> {
    if (taken.has(id)) return undefined;
    taken.add(id);
    const releaseSlot = await (again ? slotsAgain : slots).acquire(app);
    return deliver(id).finally(() => {
      taken.delete(id);
      releaseSlot();
    });
  }
  async function deliverAll({ pushes, ...job }: PushesJob): Promise<void> {
    const startedAt = performance.now();
    // They share the statements of their claims and settlements.
    const results = await Promise.allSettled(pushes.map((id) => deliverWithSlot(id, job)));
    if (tracer !== undefined) recordJob(tracer, startedAt, results);
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  }
  return createWorker(
    worker,
    'send',
    jobSchemas.send,
    (job) => ('pushes' in job ? deliverAll(job) : fanOut(job.fanOut)),
    concurrency,
  );
}

/** Records a job. Its span links to those of the pushes' batches, which it cannot be the parent of: a job has many. */
function recordJob(
  tracer: Tracer,
  startedAt: number,
  results: readonly PromiseSettledResult<string | undefined>[],
): void {
  const traces = results.flatMap((result) =>
    result.status === 'fulfilled' && result.value !== undefined ? [result.value] : [],
  );
  tracer.recordShared('send job', traces, startedAt, { 'carillon.items': results.length });
}
