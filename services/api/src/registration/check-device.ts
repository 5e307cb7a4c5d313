import { ApiError } from '@carillon/core/api-error';
import { type DeviceAuthKeys, isDeviceAuth, matchesAuthDigest } from '@carillon/core/device-auth';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import { validate } from '@carillon/core/validate';
import { withTimeout } from '@carillon/core/with-timeout';
import { type ConnectingDevice, hasCredentials } from '@carillon/store/devices';
import type { Store } from '@carillon/store/store';
import { LOOKUP_TIMEOUT_MS, type OutageWatch } from './outage-watch.ts';
import { deviceAuthRequest } from './schema.ts';

/** Keys that verify devices' credentials, and the watch that failed lookups are reported to. */
export interface DeviceAuthContext {
  authKeys: DeviceAuthKeys;
  outageWatch: Pick<OutageWatch, 'noteFailure' | 'noteUnexpectedError'>;
}

/**
 * Handles `POST /devices/auth`: checks that a device's token and auth belong together. Credentials signed by our keys
 * are accepted without the database; a deletion is detected only if the database responds (guarantee G15).
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_AUTH, SERVICE_UNAVAILABLE
 */
export async function checkDevice(
  store: Pick<Store, 'devices'>,
  context: DeviceAuthContext,
  value: unknown,
): Promise<{ success: true }> {
  const { token, auth } = validate(deviceAuthRequest, value);
  const authentication = authenticateDevice(store, context, token, auth);
  await withTimeout(authentication, LOOKUP_TIMEOUT_MS, 'MongoDB').catch((error: unknown) => {
    // A lookup that is late may still succeed, and then reports nothing.
    context.outageWatch.noteUnexpectedError(error);
    // Our signature alone decides now.
    if (error instanceof ApiError || !isDeviceAuth(context.authKeys, token, auth)) throw error;
  });
  return { success: true };
}

/**
 * Returns the device that a token and auth belong to, and records it as seen if it was not for days: a browser that is
 * registered calls nothing else.
 *
 * @throws ApiError INVALID_DEVICE_AUTH; any other error if the lookup fails
 */
export async function authenticateDevice(
  store: Pick<Store, 'devices'>,
  context: DeviceAuthContext,
  token: string,
  auth: string,
): Promise<ConnectingDevice> {
  const device = await authenticateInstallation(store, context, token, auth);
  if (!hasCredentials(device)) throw new ApiError('INVALID_DEVICE_AUTH');
  if (device.isIdle !== true) return device;
  // Read again as at a CONNECT: a prune may have deleted it before the write (store/prune-devices).
  await store.devices.markSeen(token);
  const seen = await store.devices.findForConnect(token);
  if (!hasCredentials(seen)) throw new ApiError('INVALID_DEVICE_AUTH');
  return seen;
}

/**
 * Returns the device that a token and auth belong to, also if it is a former one: its installation may prove to be it.
 *
 * @throws ApiError INVALID_DEVICE_AUTH; any other error if the lookup fails
 */
export async function authenticateInstallation(
  store: Pick<Store, 'devices'>,
  { authKeys, outageWatch }: DeviceAuthContext,
  token: string,
  auth: string,
): Promise<ConnectingDevice> {
  if (!DEVICE_TOKEN.test(token)) throw new ApiError('INVALID_DEVICE_AUTH');
  const device = await store.devices.findForConnect(token).catch((error: unknown) => {
    outageWatch.noteFailure(error);
    throw error;
  });
  if (device === undefined || device.deletedAt !== undefined)
    throw new ApiError('INVALID_DEVICE_AUTH');
  const isAuthenticated =
    isDeviceAuth(authKeys, token, auth) || matchesAuthDigest(device.authDigest, auth);
  if (!isAuthenticated) throw new ApiError('INVALID_DEVICE_AUTH');
  return device;
}
