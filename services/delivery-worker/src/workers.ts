import { CHANNELS } from '@carillon/core/channels';
import type { Tracer } from '@carillon/core/tracing';
import { deliverQueueName, jobSchemas, type WorkerQueue } from '@carillon/queue/jobs';
import type { JoinedContents, JoinedPush } from '@carillon/queue/joined-push';
import { createOpenJob } from '@carillon/queue/open-job';
import { createWorker, type QueueWorker, type WorkerSettings } from '@carillon/queue/workers';
import type { Activity } from '@carillon/store/devices';
import type { KeyUse } from '@carillon/store/keys';
import { createSemaphore } from './deliver/semaphore.ts';

/** Batches of a provider's channel wait for a remote server, and one app's must not delay those of others. */
const PROVIDER_CONCURRENCY = 500;
const PRESENCE_CONCURRENCY = 2;
/** Webhooks that get requests at once: a receiver that does not respond holds a slot for seconds. */
const WEBHOOK_CONCURRENCY = 200;
/** Pushes with an embedded batch in progress, for each batch: they are small and share round trips. */
const EMBEDDED_FACTOR = 8;

type DeliverQueue = ReturnType<typeof deliverQueueName>;

/** Processors of the queues' jobs. */
export interface Processors {
  fanOut(push: string): Promise<void>;
  /**
   * Returns the context of the batch's span, if the push is traced.
   *
   * @param contents of a push that came with its claim
   */
  deliver(id: string, contents?: JoinedContents): Promise<string | undefined>;
  checkCompletion(push: string): Promise<void>;
  recordActivity(activities: readonly Activity[]): Promise<void>;
  recordKeyUses(uses: readonly KeyUse[]): Promise<void>;
  /** Absent: the process takes no jobs of webhooks. */
  reportToWebhook?: ((webhook: string) => Promise<void>) | undefined;
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
  const { deliver, checkCompletion, recordActivity, recordKeyUses, reportToWebhook } = processors;
  const starts: Record<Exclude<WorkerQueue, DeliverQueue>, () => QueueWorker> = {
    send: () => startSending(worker, processors, concurrency * EMBEDDED_FACTOR),
    finish: () =>
      createWorker(
        worker,
        'finish',
        jobSchemas.finish,
        async ({ pushes }) => void (await Promise.all(pushes.map(checkCompletion))),
        concurrency * EMBEDDED_FACTOR,
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
  const slots = createSemaphore(concurrency);
  /** Pushes that wait for a slot or are delivered: the reconciler adds those that wait for long to another job. */
  const taken = new Set<string>();
  let isStopping = false;
  async function deliverWithSlot({ id, contents }: JoinedPush): Promise<string | undefined> {
    if (taken.has(id)) return undefined;
    taken.add(id);
    const releaseSlot = await slots.acquire();
    try {
      // The reconciler finds pushes that have not begun, and another process delivers them. A claim is released.
      return isStopping && contents === undefined ? undefined : await deliver(id, contents);
    } finally {
      releaseSlot();
      taken.delete(id);
    }
  }
  async function deliverEmbedded(pushes: readonly JoinedPush[]): Promise<void> {
    const startedAt = performance.now();
    const results = await Promise.allSettled(pushes.map(deliverWithSlot));
    if (tracer !== undefined) recordJob(tracer, startedAt, results);
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  }
  const openJob = createOpenJob(worker);
  const handler = {
    // Waits behind the pushes that wait for a slot already.
    untilFree: async () => (await slots.acquire())(),
    deliver: deliverEmbedded,
    isStopping: () => isStopping,
  };
  async function runEmbedded(ids: readonly string[]): Promise<void> {
    const [delivered] = await Promise.allSettled([
      deliverEmbedded(ids.map((id) => ({ id }))),
      openJob.takePushes(handler),
    ]);
    if (delivered.status === 'rejected') throw delivered.reason;
  }
  const sendWorker = createWorker(
    worker,
    'send',
    jobSchemas.send,
    (job) => ('lone' in job ? runEmbedded(job.lone) : fanOut(job.fanOut)),
    concurrency,
  );
  return {
    ...sendWorker,
    async stop() {
      isStopping = true;
      await Promise.all([openJob.close(), sendWorker.stop()]);
    },
  };
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
