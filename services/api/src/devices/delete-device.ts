import { ApiError } from '@carillon/core/api-error';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import type { Store } from '@carillon/store/store';
import type { ClearDeletedDevices } from './clear-deleted-devices.ts';

/** A device whose CONNECT was in progress during the deletion is connected after this time. */
const SECOND_DISCONNECT_DELAY_MS = 1_000;

/**
 * Handles `DELETE /devices/<device_token>`: the device's credentials are rejected from now on, and its pending
 * deliveries end as `gone`. If Redis fails, a connected device stays connected until its next PINGREQ.
 *
 * @param disconnect closes the device's connection; throws if Redis fails
 * @throws ApiError INVALID_DEVICE_TOKEN also for a device of another app
 */
export async function deleteDevice(
  store: Pick<Store, 'deletedDevices'>,
  {
    disconnect,
    clearDeletedDevices,
  }: {
    disconnect: (token: string) => Promise<void>;
    clearDeletedDevices: ClearDeletedDevices;
  },
  app: string,
  token: string,
): Promise<{ success: true }> {
  const isDeleted =
    DEVICE_TOKEN.test(token) && (await store.deletedDevices.markDeleted(app, token));
  if (!isDeleted) throw new ApiError('INVALID_DEVICE_TOKEN');
  await disconnect(token).catch(() => undefined);
  setTimeout(
    () => void disconnect(token).catch(() => undefined),
    SECOND_DISCONNECT_DELAY_MS,
  ).unref();
  await clearDeletedDevices(app, [token]);
  return { success: true };
}
