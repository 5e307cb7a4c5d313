import { ApiError } from '@carillon/core/api-error';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import { deleteDevice } from '@carillon/store/delete-device';

/**
 * Handles `DELETE /devices/<device_token>`.
 *
 * @throws ApiError INVALID_DEVICE_TOKEN also for a device of another app
 */
export async function handleDeleteDevice(
  ...[store, deletion, app, token]: Parameters<typeof deleteDevice>
): Promise<{ success: true }> {
  const isDeleted = DEVICE_TOKEN.test(token) && (await deleteDevice(store, deletion, app, token));
  if (!isDeleted) throw new ApiError('INVALID_DEVICE_TOKEN');
  return { success: true };
}
