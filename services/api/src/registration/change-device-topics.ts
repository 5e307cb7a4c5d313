import { ApiError } from '@carillon/core/api-error';
import type { RateLimits } from '../http/rate-limits.ts';
import type { SubscriptionStore, subscribe, unsubscribe } from '../topics/subscribe.ts';
import { authenticateDevice, type DeviceAuthContext } from './check-device.ts';

/** Request of a device to change its own subscriptions. */
interface TopicChangeRequest {
  change: typeof subscribe | typeof unsubscribe;
  value: Record<string, unknown>;
  /** The client's address. */
  address: string;
}

/**
 * Handles `POST /devices/subscribe` and `/devices/unsubscribe` for a device that authenticates with its token and
 * auth. The change itself is the same as a backend's.
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_AUTH, INVALID_DEVICE_TOKEN, RATE_LIMIT_EXCEEDED
 */
export async function changeDeviceTopics(
  store: SubscriptionStore,
  context: DeviceAuthContext & { rateLimits: Pick<RateLimits, 'countTopicChange'> },
  { change, value, address }: TopicChangeRequest,
): Promise<{ success: true }> {
  const { token, auth } = value;
  if (typeof token !== 'string' || typeof auth !== 'string') {
    throw new ApiError('INVALID_PARAM', 'The parameters "token" and "auth" must be strings.');
  }
  const { app } = await authenticateDevice(store, context, token, auth);
  // Counted after authentication, so that a client without the auth can't use up the device's limit.
  await context.rateLimits.countTopicChange(token, address);
  return change(store, app, value);
}
