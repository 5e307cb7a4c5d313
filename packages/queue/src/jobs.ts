import { CHANNELS, type Channel } from '@carillon/core/platforms';
import { z } from 'zod';

/** Jobs carry ids and small numbers, never payloads: the processor reads the present truth. */
export const jobSchemas = {
  /** Release batches of a push, or deliver pushes at once that hold their only batch. */
  send: z.union([z.object({ fanOut: z.string() }), z.object({ lone: z.array(z.string()) })]),
  /** Deliver one batch. */
  deliver: z.object({ work: z.string() }),
  /** See whether pushes have come to their end. */
  finish: z.object({ pushes: z.array(z.string()) }),
  /** Connects and disconnects of devices: token, milliseconds since 1970. */
  presence: z.object({ events: z.array(z.tuple([z.string(), z.number()])) }),
  /** A tick of a job scheduler. */
  maintenance: z.object({ task: z.enum(['reconcile', 'clean']) }),
};
export type MaintenanceJob = z.infer<typeof jobSchemas.maintenance>;
export type PresenceJob = z.infer<typeof jobSchemas.presence>;

/** The queue of a channel's batches; each scales alone. */
export function deliverQueue(channel: Channel): `deliver-${Channel}` {
  return `deliver-${channel}`;
}

/** All queues. */
export const QUEUE_NAMES = [
  'send',
  ...CHANNELS.map(deliverQueue),
  'finish',
  'presence',
  'maintenance',
] as const;
export type QueueName = (typeof QUEUE_NAMES)[number];

/**
 * One job per push and step of its fan-out: API, reconciler and the step before may all add it. A step has
 * an id of its own because an id added from inside its own job is silently ignored. Lone pushes of a moment share
 * a job, named by the first of them: what the reconciler adds for pushes that wait in line is added once.
 */
export function sendJobId(push: string, step: number): string {
  return `send-${push}-${step}`;
}

/** One job per batch: released by the fan-out, found again by the reconciler while it waits in the queue. */
export function deliverJobId(work: string): string {
  return `deliver-${work}`;
}

/** One end of a push at a time, for a large one takes long. */
export function endJobId(push: string): string {
  return `end-${push}`;
}

/** One look for what is due in a second, however many pushes are scheduled for it. */
export function dueJobId(second: number): string {
  return `due-${second}`;
}
