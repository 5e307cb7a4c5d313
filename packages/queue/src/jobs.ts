import { CHANNELS, type Channel } from '@carillon/core/channels';
import { z } from 'zod';

/** Format of the ids that jobs hold: of pushes, batches, webhooks, keys, and device tokens. Logs may hold an id. */
const ID = /^[\w-]{1,64}$/;

const id = z.string().regex(ID);

/** Data of the jobs by queue. Jobs hold ids and small numbers, never payloads: the processor reads the current state. */
export const jobSchemas = {
  /**
   * Runs a step of a push's fan-out, or delivers pushes of one app, each with an embedded batch; `again`: they probably
   * have another job.
   */
  send: z.union([
    z.object({ fanOut: id }),
    z.object({ app: id, pushes: z.array(id), again: z.literal(true).optional() }),
  ]),
  /** Delivers one batch. */
  deliver: z.object({ work: id }),
  /** Checks whether pushes are complete. */
  finish: z.object({ pushes: z.array(id) }),
  /**
   * Records connects and disconnects of devices (token, milliseconds since 1970) and uses of API keys (the key's id,
   * milliseconds).
   */
  presence: z.object({
    events: z.array(z.tuple([id, z.number()])),
    keys: z.array(z.tuple([id, z.number()])),
  }),
  /** Reports due events to a webhook. */
  webhook: z.object({ webhook: id }),
  /** Sends the page of a re-drive's old pushes again that follows the cursor; absent means the first page. */
  redrive: z.object({ redrive: id, cursor: id.optional() }),
  /** Checks for due pushes. */
  maintenance: z.object({ task: z.literal('reconcile') }),
};
export type SendJob = z.infer<typeof jobSchemas.send>;
export type RedriveJob = z.infer<typeof jobSchemas.redrive>;
export type PresenceJob = z.infer<typeof jobSchemas.presence>;

/** Returns the queue of a channel's batches. Each channel scales independently. */
export function deliverQueueName(channel: Channel): `deliver-${Channel}` {
  return `deliver-${channel}`;
}

/** All queues. */
export const QUEUE_NAMES = [
  'send',
  ...CHANNELS.map(deliverQueueName),
  'finish',
  'presence',
  'webhook',
  'redrive',
  'maintenance',
] as const;
export type QueueName = (typeof QUEUE_NAMES)[number];

/** The queues that delivery-workers take; the scheduler takes the other one. */
export const WORKER_QUEUES = QUEUE_NAMES.filter((name) => name !== 'maintenance');
export type WorkerQueue = (typeof WORKER_QUEUES)[number];

/**
 * Returns the id of a `send` job, one per push and fan-out step: API, reconciler and the previous step may all add it.
 * Each step has a separate id, because BullMQ ignores a job that is added from inside a job of the same id. Pushes
 * with an embedded batch share a job that is named by the first of them.
 *
 * @param isDelayed the job has an id of its own: its time is by the clock of the process that adds it, and if that is minutes
 *   fast, the reconciler adds another one when the step is due by MongoDB's
 */
export function sendJobId(push: string, step: number, isDelayed = false): string {
  return `send-${push}-${step}${isDelayed ? '-delayed' : ''}`;
}

/**
 * Returns the id of the job by which the reconciler delivers a push again. It is not the id of the first attempt: that job may be
 * active for another minute, and BullMQ would ignore this one.
 */
export function resendJobId(push: string, dueAt: Date): string {
  return `send-${push}-again-${dueAt.getTime()}`;
}

/**
 * Setting of a BullMQ queue. It permanently keeps the result of its first version check: a queue opened while
 * Redis stalled would fail until the process ends. The workers' connections check the version.
 */
export const NO_VERSION_CHECK = { skipVersionCheck: true } as const;

/** Returns the id of a `deliver` job, one per batch: the fan-out and the reconciler may both add it. */
export function deliverJobId(work: string): string {
  return `deliver-${work}`;
}

/** Returns the id of a termination job, one per push at a time, because terminating a large push takes long. */
export function terminateJobId(push: string): string {
  return `end-${push}`;
}

/** Returns the id of a webhook's job, one at a time: a webhook has one request in flight. */
export function webhookJobId(webhook: string): string {
  return `webhook-${webhook}`;
}

/**
 * Returns the id of the job of a re-drive's page, which begins after the cursor: the console or the job of the previous
 * page adds it, and the reconciler may too. Each page has a separate id, because BullMQ ignores a job that is added from
 * inside a job of the same id.
 */
export function redriveJobId(redrive: string, cursor: string | undefined): string {
  return `redrive-${redrive}-${cursor ?? 'begin'}`;
}

/** Returns the id of a due check, one per second, however many pushes are due in it. */
export function dueCheckJobId(second: number): string {
  return `due-${second}`;
}
