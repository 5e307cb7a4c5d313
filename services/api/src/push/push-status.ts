import { ApiError } from '@carillon/core/api-error';
import { isPushId } from '@carillon/core/ids';
import type { PushDocument } from '@carillon/store/documents';

/** What the status needs of the store. */
export interface StatusDeps {
  findPush(app: string, id: string): Promise<PushDocument | undefined>;
  /** Devices of tracked platforms that haven't received the push, at most 1,000. */
  pendingDevices(push: PushDocument): Promise<string[]>;
  now(): number;
  retentionMs: number;
}

/** Unix time in seconds, as the API gives it. */
export function unixSeconds(date: Date): number {
  return Math.floor(date.getTime() / 1_000);
}

/**
 * Whether a push can be asked for: accepted, not deleted, not expired, not delivered to all for longer than the
 * retention. A time to live of 0 ends at once (guarantee G6).
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

/**
 * `GET /pushes/<push_id>` (specification 4.2) as JSON text, the payload as it came in.
 *
 * @throws ApiError INVALID_PUSH_ID, PUSH_SCHEDULED
 */
export async function pushStatus(deps: StatusDeps, app: string, id: string): Promise<string> {
  const push = isPushId(id) ? await deps.findPush(app, id) : undefined;
  if (push === undefined || !isVisible(push, deps.now(), deps.retentionMs)) {
    throw new ApiError('INVALID_PUSH_ID');
  }
  // By time, not by state: the state follows up to a second late (guarantee G7).
  if (push.dueAt !== undefined && deps.now() < push.dueAt.getTime()) {
    throw new ApiError('PUSH_SCHEDULED');
  }
  const pending = await deps.pendingDevices(push);
  const date = unixSeconds(push.acceptedAt);
  const expiration = unixSeconds(push.expiresAt);
  return `{"push":{"date":${date},"payload":${push.data},"expiration":${expiration},"pending_devices":${JSON.stringify(pending)}}}`;
}
