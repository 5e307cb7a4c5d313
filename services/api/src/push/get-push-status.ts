import { isScheduled, isVisible, toUnixSeconds } from '@carillon/accept/push-visibility';
import { ApiError } from '@carillon/core/api-error';
import { isPushId } from '@carillon/core/ids';
import { LIMITS } from '@carillon/core/limits';
import type { Reports } from '@carillon/reports/reports';
import type { Store } from '@carillon/store/store';

/**
 * Handles `GET /pushes/<push_id>` (specification 4.2). Returns JSON text with the payload's original text.
 *
 * @throws ApiError INVALID_PUSH_ID, PUSH_SCHEDULED
 */
export async function getPushStatus(
  store: Pick<Store, 'pushes' | 'clock'> & Pick<Reports, 'pending'>,
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
