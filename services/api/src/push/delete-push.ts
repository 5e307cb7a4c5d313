import { ApiError } from '@carillon/core/api-error';
import { isPushId } from '@carillon/core/ids';
import type { PushDocument } from '@carillon/store/documents';
import { isVisible } from './push-status.ts';

/** What deleting needs. */
export interface DeleteDeps {
  findPush(app: string, id: string): Promise<PushDocument | undefined>;
  /** Marks the push deleted; false if it was deleted meanwhile. */
  markDeleted(app: string, id: string): Promise<boolean>;
  addEndJob(id: string): Promise<void>;
  now(): number;
  retentionMs: number;
}

/**
 * `DELETE /pushes/<push_id>` (specification 4.3). Scheduled and delivered pushes can be deleted too. Once this
 * returns nothing new is sent a second later (guarantee G8); rows and work are cleared by the `finish` job.
 *
 * @throws ApiError INVALID_PUSH_ID
 */
export async function deletePush(
  deps: DeleteDeps,
  app: string,
  id: string,
): Promise<{ success: true }> {
  const push = isPushId(id) ? await deps.findPush(app, id) : undefined;
  if (push === undefined || !isVisible(push, deps.now(), deps.retentionMs)) {
    throw new ApiError('INVALID_PUSH_ID');
  }
  if (!(await deps.markDeleted(app, id))) throw new ApiError('INVALID_PUSH_ID');
  void deps.addEndJob(id);
  return { success: true };
}
