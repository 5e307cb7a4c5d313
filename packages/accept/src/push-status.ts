import { ApiError } from '@carillon/core/api-error';
import { isPushId } from '@carillon/core/ids';
import { LIMITS } from '@carillon/core/limits';
import type { PushDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';

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

/**
 * Handles `GET /pushes/<push_id>` (specification 4.2). Returns JSON text with the payload's original text.
 *
 * @throws ApiError INVALID_PUSH_ID, PUSH_SCHEDULED
 */
export async function getPushStatus(
  store: Pick<Store, 'pushes' | 'pending' | 'clock'>,
  { app, id, retentionMs }: { app: string; id: string; retentionMs: number },
): Promise<string> {
  const push = isPushId(id) ? await store.pushes.find(app, id) : undefined;
  if (push === undefined || !isVisible(push, store.clock.now(), retentionMs)) {
    throw new ApiError('INVALID_PUSH_ID');
  }
  if (isScheduled(push, store.clock.now())) throw new ApiError('PUSH_SCHEDULED');
  const pending = await store.pending.findDevices(push, LIMITS.pendingDevices);
  const date = toUnixSeconds(push.acceptedAt);
  const expiration = toUnixSeconds(push.expiresAt);
  return `{"push":{"date":${date},"payload":${push.data},"expiration":${expiration},"pending_devices":${JSON.stringify(pending)}}}`;
}
