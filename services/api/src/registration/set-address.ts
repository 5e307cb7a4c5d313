import { ApiError } from '@carillon/core/api-error';
import type { ProviderAddress } from '@carillon/store/documents';
import { check } from '../http/check.ts';
import { type CheckDeviceDeps, proveDevice } from './check-device.ts';
import { appleAddress } from './register.ts';
import { deviceTokenRequest } from './schema.ts';

/** What changing a device's address needs. */
export interface SetAddressDeps extends CheckDeviceDeps {
  /** Returns the devices that this installation was before. */
  setAddress(app: string, token: string, address: ProviderAddress | undefined): Promise<string[]>;
  dropSubscriptions(app: string, token: string): Promise<void>;
}

/**
 * `POST /devices/token`: an iOS device has got another APNs token, or none.
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_AUTH
 */
export async function setAddress(deps: SetAddressDeps, value: unknown): Promise<{ success: true }> {
  const { token, auth, ...address } = check(deviceTokenRequest, value);
  const device = await proveDevice(deps, token, auth);
  if (device.platform !== 'ios') {
    throw new ApiError('INVALID_PARAM', 'Only iOS devices have a push token.');
  }
  const replaced = await deps.setAddress(device.app, token, appleAddress(address));
  for (const gone of replaced) await deps.dropSubscriptions(device.app, gone);
  return { success: true };
}
