import type { PushDocument } from '@carillon/store/documents';

/** Converts a date to Unix time in seconds, the API's unit. */
export function toUnixSeconds(date: Date): number {
  return Math.floor(date.getTime() / 1_000);
}

/**
 * Checks that the API shows a push: it is accepted, not deleted and not expired, and was not completed longer ago
 * than the retention. A time to live of 0 expires at once (guarantee G6).
 */
export function isVisible(
  push: Pick<PushDocument, 'state' | 'expiresAt' | 'finishedAt'>,
  nowMs: number,
  retentionMs: number,
): boolean {
  if (push.state !== 'open' && push.state !== 'scheduled' && push.state !== 'finished')
    return false;
  if (nowMs >= push.expiresAt.getTime()) return false;
  return push.finishedAt === undefined || nowMs < push.finishedAt.getTime() + retentionMs;
}

/** Checks that a push is due later. Decided by time, because the state changes up to a second late (guarantee G7). */
export function isScheduled({ dueAt }: Pick<PushDocument, 'dueAt'>, nowMs: number): boolean {
  return dueAt !== undefined && nowMs < dueAt.getTime();
}
