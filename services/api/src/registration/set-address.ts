import { ApiError } from '@carillon/core/api-error';
import { validate } from '@carillon/core/validate';
import type { ClearDeletedDevices } from '@carillon/store/delete-device';
import type { Store } from '@carillon/store/store';
import { authenticateDevice, type DeviceAuthContext } from './check-device.ts';
import { parseAppleAddress } from './register-device.ts';
import { deviceTokenRequest } from './schema.ts';

/**
 * Handles `POST /devices/token`: stores the new APNs token of an iOS device, or removes it.
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_AUTH
 */
export async function setAddress(
  store: Pick<Store, 'devices'>,
  context: DeviceAuthContext & { clearDeletedDevices: ClearDeletedDevices },
  value: unknown,
): Promise<{ success: true }> {
  const { token, auth, ...address } = validate(deviceTokenRequest, value);
  const device = await authenticateDevice(store, context, token, auth);
  if (device.platform !== 'ios') {
    throw new ApiError('INVALID_PARAM', 'Only iOS devices have a push token.');
  }
  const replaced = await store.devices.setAddress(device.app, token, parseAppleAddress(address));
  await context.clearDeletedDevices(device.app, replaced);
  return { success: true };
}
