import { PROVIDER_CHANNELS } from '@carillon/core/credentials';
import { deliverQueue, jobSchemas } from '@carillon/queue/jobs';
import { createWorker, type WorkerDeps } from '@carillon/queue/workers';
import type { Activity } from '@carillon/store/devices';

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
  const startDeliver = (channel: Parameters<typeof deliverQueue>[0], atOnce: number) =>
    createWorker(worker, deliverQueue(channel), deliverJob, ({ work }) => deliver(work), atOnce);
  return [
    createWorker(
      worker,
      'send',
      send,
      ({ push, batches }) => (batches ? fanOut(push) : deliver(push)),
      concurrency * LONE_FACTOR,
    ),
    startDeliver('mqtt', concurrency),
    ...PROVIDER_CHANNELS.map((channel) => startDeliver(channel, PROVIDER_CONCURRENCY)),
    createWorker(
      worker,
      'finish',
      finishJob,
      ({ push }) => finish(push),
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
