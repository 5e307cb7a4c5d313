import { ApiError } from '@carillon/core/api-error';
import { isPushId } from '@carillon/core/ids';
import type { Producers } from '@carillon/queue/producers';
import type { Store } from '@carillon/store/store';
import { isVisible } from './push-visibility.ts';

/**
 * Handles `DELETE /pushes/<push_id>` (specification 4.3). Scheduled and delivered pushes can be deleted too. One
 * second after it returns no further delivery starts (guarantee G8); the `finish` job clears inbox rows and batches.
 *
 * @throws ApiError INVALID_PUSH_ID
 */
export async function deletePush(
  store: Pick<Store, 'pushes' | 'pushCompletion' | 'clock'>,
  producers: Producers,
  { app, id, retentionMs }: { app: string; id: string; retentionMs: number },
): Promise<{ success: true }> {
  const push = isPushId(id) ? await store.pushes.find(app, id) : undefined;
  if (push === undefined || !isVisible(push, store.clock.now(), retentionMs)) {
    throw new ApiError('INVALID_PUSH_ID');
  }
  if (!(await store.pushCompletion.markDeleted(app, id))) throw new ApiError('INVALID_PUSH_ID');
  void producers.terminate([id]);
  return { success: true };
}
