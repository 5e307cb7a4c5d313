import { countForApp } from './app-counts.ts';
import type { Channel } from './channels.ts';
import {
  countOutcomes,
  describeOutcome,
  type Failure,
  type OutcomeCounts,
  type OutcomeName,
} from './outcomes.ts';

/*
 * Counts the events of a process since its start, for its metrics. The counts belong to the process, like its memory:
 * parts that count need no metrics passed to them, and counting is an addition.
 */

/** Kinds of calls that share round trips (core/batcher). A fixed set, because it is a label of metrics. */
export type BatchedOperation =
  | 'add-job'
  | 'change-topic-counter'
  | 'check-completion'
  | 'claim-batch'
  | 'collect-receipt'
  | 'count-request'
  | 'count-due-jobs'
  | 'dispatch-push'
  | 'enqueue-completion-check'
  | 'enqueue-push'
  | 'find-connecting-device'
  | 'mark-connected'
  | 'mark-seen'
  | 'find-deleted-devices'
  | 'find-device'
  | 'find-gateway'
  | 'find-newer-push'
  | 'insert-push'
  | 'probe-servers'
  | 'read-inbox'
  | 'read-push'
  | 'record-receipt'
  | 'register-presence'
  | 'release-batch'
  | 'settle-batch'
  | 'unregister-presence'
  | 'write-inbox';

/** Round trips of one operation, and the calls that they served. */
export interface BatchedCounts {
  writes: number;
  items: number;
}

/** Outcomes that end a recipient. */
export const FINAL_OUTCOMES = [
  'delivered',
  'sent',
  'gone',
  'superseded',
  'expired',
  'deleted',
  'failed',
] as const satisfies readonly OutcomeName[];
type FinalOutcome = (typeof FINAL_OUTCOMES)[number];

const recipients = new Map<Channel, Partial<Record<FinalOutcome, number>>>();
const failures = new Map<Failure, number>();
const jobsTaken = new Map<string, number>();
const batched = new Map<BatchedOperation, BatchedCounts>();

/** Totals of this process. */
export const processCounts = {
  pushesAccepted: 0,
  inboxRowsWritten: 0,
  inboxRowsAcknowledged: 0,
  redisCommandFailures: 0,
  mongodbCommandFailures: 0,
  webhookEventsDropped: 0,
  /** Recipients that have ended, by the channel of their batch and their outcome. */
  recipients: recipients as ReadonlyMap<Channel, Readonly<Partial<Record<FinalOutcome, number>>>>,
  /** Recipients that have failed, by reason. */
  failures: failures as ReadonlyMap<Failure, number>,
  /** Jobs that the workers of this process have taken, by queue. */
  jobsTaken: jobsTaken as ReadonlyMap<string, number>,
  /** Calls that shared round trips. */
  batched: batched as ReadonlyMap<BatchedOperation, Readonly<BatchedCounts>>,
};

/** Counts a push of an app that was accepted. */
export function countAccepted(app: string): void {
  processCounts.pushesAccepted += 1;
  countForApp(app, { accepted: 1 });
}

/**
 * Counts recipients that have ended; `pending` and `inbox` are no ends and are left out.
 *
 * @param app undefined if it is not known
 */
export function countRecipients(
  app: string | undefined,
  channel: Channel,
  counts: OutcomeCounts,
): void {
  countForApp(app, counts);
  let ofChannel = recipients.get(channel);
  if (ofChannel === undefined) {
    ofChannel = {};
    recipients.set(channel, ofChannel);
  }
  for (const outcome of FINAL_OUTCOMES) {
    const count = counts[outcome];
    if (count !== undefined && count > 0) ofChannel[outcome] = (ofChannel[outcome] ?? 0) + count;
  }
}

/** Counts recipients that have ended in the same way, each by its app. */
export function countByApp(
  ended: readonly { app: string | undefined }[],
  channel: Channel,
  outcome: FinalOutcome,
): void {
  for (const [app, some] of Map.groupBy(ended, (one) => one.app))
    countRecipients(app, channel, { [outcome]: some.length });
}

/** Counts recipients of an app that have ended by their outcome bytes, and why those failed that have. */
export function countEnds(app: string, channel: Channel, codes: Uint8Array): void {
  countRecipients(app, channel, countOutcomes(codes));
  countFailures(codes);
}

/** Counts the reasons of the failed recipients among those that have ended, by their outcome bytes. */
export function countFailures(codes: Uint8Array): void {
  for (const code of codes) {
    const { reason } = describeOutcome(code);
    if (reason !== undefined) failures.set(reason, (failures.get(reason) ?? 0) + 1);
  }
}

/** Counts a job that a worker of a queue has taken. */
export function countJobTaken(queue: string): void {
  jobsTaken.set(queue, (jobsTaken.get(queue) ?? 0) + 1);
}

/** Returns the counts of an operation, to add to. */
export function batchedCountsOf(operation: BatchedOperation): BatchedCounts {
  const existing = batched.get(operation);
  if (existing !== undefined) return existing;
  const counts = { writes: 0, items: 0 };
  batched.set(operation, counts);
  return counts;
}
