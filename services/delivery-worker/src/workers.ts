import { PROVIDER_CHANNELS } from '@carillon/core/credentials';
import { deliverQueue, jobSchemas } from '@carillon/queue/jobs';
import { createWorker, type WorkerDeps } from '@carillon/queue/workers';
import type { Activity } from '@carillon/store/devices';
import { createSemaphore } from './deliver/semaphore.ts';

/** Work of a provider's channel waits for answers of far away, and one app's must not keep others' waiting. */
const PROVIDER_CONCURRENCY = 500;
const PRESENCE_CONCURRENCY = 2;
/** Of lone pushes so many more are under way: each is small, and those of one moment share round trips. */
const LONE_FACTOR = 8;

/** What the jobs do. */
export interface Processors {
  fanOut(push: string): Promise<void>;
  deliver(work: string): Promise<void>;
  finish(push: string): Promise<void>;
  noteActivity(activities: readonly Activity[]): Promise<void>;
}

/**
 * Starts the workers of all queues that a delivery-worker serves.
 *
 * @param concurrency batches of a push at once
 * @returns what stops each
 */
export function startWorkers(
  worker: WorkerDeps,
  { fanOut, deliver, finish, noteActivity }: Processors,
  concurrency: number,
): (() => Promise<void>)[] {
  const { send, deliver: deliverJob, finish: finishJob, presence } = jobSchemas;
  const places = createSemaphore(concurrency * LONE_FACTOR);
  let isStopping = false;
  async function deliverInPlace(push: string): Promise<void> {
    const leave = await places.enter();
    try {
      // What has not begun is found by the reconciler, and another process does it.
      if (!isStopping) await deliver(push);
    } finally {
      leave();
    }
  }
  async function deliverLone(pushes: readonly string[]): Promise<void> {
    const ends = await Promise.allSettled(pushes.map(deliverInPlace));
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
  }
  const startDeliver = (channel: Parameters<typeof deliverQueue>[0], atOnce: number) =>
    createWorker(worker, deliverQueue(channel), deliverJob, ({ work }) => deliver(work), atOnce);
  const stopSending = createWorker(
    worker,
    'send',
    send,
    (job) => ('lone' in job ? deliverLone(job.lone) : fanOut(job.fanOut)),
    concurrency * LONE_FACTOR,
  );
  return [
    () => {
      isStopping = true;
      return stopSending();
    },
    startDeliver('mqtt', concurrency),
    ...PROVIDER_CHANNELS.map((channel) => startDeliver(channel, PROVIDER_CONCURRENCY)),
    createWorker(
      worker,
      'finish',
      finishJob,
      async ({ pushes }) => void (await Promise.all(pushes.map(finish))),
      concurrency * LONE_FACTOR,
    ),
    createWorker(
      worker,
      'presence',
      presence,
      ({ events }) => noteActivity(events.map(([token, at]) => ({ token, at }))),
      PRESENCE_CONCURRENCY,
    ),
  ];
}
