import { createHash } from 'node:crypto';
import { ApiError } from '@carillon/core/api-error';
import { type DeviceAuthKeys, isDeviceAuth } from '@carillon/core/device-auth';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import type { Connecting } from '@carillon/store/device-lookups';
import { check } from '../http/check.ts';
import { deviceAuthRequest } from './schema.ts';

/** What checking a device's credentials needs. */
export interface CheckDeviceDeps {
  authKeys: DeviceAuthKeys;
  findDevice(token: string): Promise<Connecting | undefined>;
  noteFailure(): void;
}

/**
 * `POST /devices/auth`: whether a device's token and auth belong together. Our own credentials are checked
 * without the database; whether the device was deleted only when the database answers (guarantee G15).
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_AUTH, SERVICE_UNAVAILABLE
 */
export async function checkDevice(
  deps: CheckDeviceDeps,
  value: unknown,
): Promise<{ success: true }> {
  const { token, auth } = check(deviceAuthRequest, value);
  await proveDevice(deps, token, auth).catch((error: unknown) => {
    if (error instanceof ApiError || !isDeviceAuth(deps.authKeys, token, auth)) throw error;
  });
  return { success: true };
}

/**
 * The device that a token and auth belong to.
 *
 * @throws ApiError INVALID_DEVICE_AUTH; any other error when the database can't tell
 */
export async function proveDevice(
  deps: CheckDeviceDeps,
  token: string,
  auth: string,
): Promise<Connecting> {
  if (!DEVICE_TOKEN.test(token)) throw new ApiError('INVALID_DEVICE_AUTH');
  const device = await deps.findDevice(token).catch((error: unknown) => {
    deps.noteFailure();
    throw error;
  });
  if (device === undefined || device.deletedAt !== undefined) {
    throw new ApiError('INVALID_DEVICE_AUTH');
  }
  const isProven = isDeviceAuth(deps.authKeys, token, auth) || isImported(device, auth);
  if (!isProven) throw new ApiError('INVALID_DEVICE_AUTH');
  return device;
}

/** Devices that came from elsewhere keep their auth, of which we have a digest. */
function isImported(device: { authDigest?: string }, auth: string): boolean {
  return device.authDigest === createHash('sha256').update(auth).digest('hex');
}
