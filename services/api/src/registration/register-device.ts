import { ApiError } from '@carillon/core/api-error';
import type { ProviderAddress } from '@carillon/core/channels';
import { createDeviceAuth, type DeviceAuthKeys } from '@carillon/core/device-auth';
import { invalidParameter, validate } from '@carillon/core/validate';
import { type AllowedPushHost, parsePushEndpoint } from '@carillon/core/web-push-endpoint';
import type { ClearDeletedDevices } from '@carillon/store/delete-device';
import type { Store } from '@carillon/store/store';
import type { RateLimits } from '../http/rate-limits.ts';
import { findAppByIdOrName } from './find-app.ts';
import type { OutageWatch } from './outage-watch.ts';
import { type RegisterRequest, registerRequest } from './schema.ts';

/** Parts of the process, besides the store, that registering uses. */
export interface RegisterContext {
  clearDeletedDevices: ClearDeletedDevices;
  authKeys: DeviceAuthKeys;
  rateLimits: Pick<RateLimits, 'countRegistration'>;
  outageWatch: Pick<OutageWatch, 'isHealthy'>;
  /** Web Push services besides those of the browser vendors. */
  webPushHosts: readonly AllowedPushHost[];
}

/**
 * Handles `POST /register`. Creates a device of an app and returns its credentials.
 *
 * @param address the client's
 * @throws ApiError INVALID_PARAM, INVALID_APP_ID, REGISTRATION_CLOSED, RATE_LIMIT_EXCEEDED, SERVICE_UNAVAILABLE
 */
export async function registerDevice(
  store: Pick<Store, 'apps' | 'devices' | 'suspensions'>,
  context: RegisterContext,
  value: unknown,
  address: string,
): Promise<{ token: string; auth: string }> {
  if (!context.outageWatch.isHealthy()) throw new ApiError('SERVICE_UNAVAILABLE');
  const request = validate(registerRequest, value);
  const provider = parseProviderAddress(request, context.webPushHosts);
  const app = await findAppByIdOrName(store, request);
  if (app === undefined) throw new ApiError('INVALID_APP_ID');
  // Not a rejection: the app's devices retry and succeed once the suspension is lifted.
  if (store.suspensions.has(app._id)) throw new ApiError('SERVICE_UNAVAILABLE');
  if (app.registrationClosed === true) throw new ApiError('REGISTRATION_CLOSED');
  await context.rateLimits.countRegistration(address, app);
  const { token, replaced } = await store.devices.register(app._id, request.platform, provider);
  await context.clearDeletedDevices(app._id, replaced);
  return { token, auth: createDeviceAuth(context.authKeys, token) };
}

function parseProviderAddress(
  request: RegisterRequest,
  webPushHosts: readonly AllowedPushHost[],
): ProviderAddress | undefined {
  if (request.platform === 'ios') return parseAppleAddress(request);
  if (request.platform === 'android' && request.fcmToken !== undefined) {
    return { channel: 'fcm', address: request.fcmToken };
  }
  if (request.platform !== 'web') return undefined;
  const { endpoint, key, auth } = request.subscription;
  if (parsePushEndpoint(endpoint, webPushHosts) === undefined) {
    throw invalidParameter('subscription.endpoint', 'must be the address of a push service');
  }
  return { channel: 'web-push', address: endpoint, p256dh: key, auth };
}

/** Returns the address of an iOS device; undefined without a push token. */
export function parseAppleAddress(request: {
  pushToken?: string | null | undefined;
  pushEnvironment?: 'development' | 'production' | undefined;
  pushBundle?: string | undefined;
}): ProviderAddress | undefined {
  const { pushToken, pushEnvironment: environment, pushBundle: bundle } = request;
  if (typeof pushToken !== 'string' || environment === undefined || bundle === undefined) {
    return undefined;
  }
  return { channel: 'apns', address: pushToken, environment, bundle };
}
