import { createHash } from 'node:crypto';
import { ApiError } from '@carillon/core/api-error';
import { type DeviceAuthKeys, isDeviceAuth } from '@carillon/core/device-auth';
import { DEVICE_TOKEN } from '@carillon/core/limits';

/** What checking a device's credentials needs. */
export interface CheckDeviceDeps {
  authKeys: DeviceAuthKeys;
  findDevice(token: string): Promise<{ deletedAt?: Date; authDigest?: string } | undefined>;
  noteFailure(): void;
}

type Known = Awaited<ReturnType<CheckDeviceDeps['findDevice']>>;

/** A device of which the database can't tell anything at the moment. */
const UNKNOWN_NOW: Known = {};

/**
 * `POST /devices/auth`: whether a device's token and auth belong together. Our own credentials are checked
 * without the database; whether the device was deleted only when the database answers (guarantee G15).
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_AUTH, SERVICE_UNAVAILABLE
 */
export async function checkDevice(
  deps: CheckDeviceDeps,
  { token, auth }: Record<string, unknown>,
): Promise<{ success: true }> {
  if (typeof token !== 'string' || typeof auth !== 'string' || !DEVICE_TOKEN.test(token)) {
    throw new ApiError('INVALID_PARAM', 'The parameters "token" and "auth" must be strings.');
  }
  const isOurs = isDeviceAuth(deps.authKeys, token, auth);
  const device = await deps.findDevice(token).catch(() => {
    deps.noteFailure();
    if (!isOurs) throw new ApiError('SERVICE_UNAVAILABLE');
    return UNKNOWN_NOW;
  });
  if (device === undefined || device.deletedAt !== undefined) {
    throw new ApiError('INVALID_DEVICE_AUTH');
  }
  if (!isOurs && !isImported(device, auth)) throw new ApiError('INVALID_DEVICE_AUTH');
  return { success: true };
}

/** Devices that came from elsewhere keep their auth, of which we have a digest. */
function isImported(device: { authDigest?: string }, auth: string): boolean {
  return device.authDigest === createHash('sha256').update(auth).digest('hex');
}
