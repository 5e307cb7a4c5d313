import { ApiError } from '@carillon/core/api-error';
import type { SubscribeDeps, subscribe, unsubscribe } from '../topics/subscribe.ts';
import { type CheckDeviceDeps, proveDevice } from './check-device.ts';

type Change = typeof subscribe | typeof unsubscribe;

/**
 * `POST /devices/subscribe` and `/devices/unsubscribe` by the device itself, which proves itself with token and
 * auth; the rest is as a backend does it.
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_AUTH, INVALID_DEVICE_TOKEN
 */
export async function changeOwnTopics(
  deps: CheckDeviceDeps & SubscribeDeps,
  change: Change,
  value: Record<string, unknown>,
): Promise<{ success: true }> {
  const { token, auth } = value;
  if (typeof token !== 'string' || typeof auth !== 'string') {
    throw new ApiError('INVALID_PARAM', 'The parameters "token" and "auth" must be strings.');
  }
  const { app } = await proveDevice(deps, token, auth);
  return change(deps, app, value);
}
