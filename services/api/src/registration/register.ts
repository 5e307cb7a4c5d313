import { ApiError } from '@carillon/core/api-error';
import { type DeviceAuthKeys, deviceAuth } from '@carillon/core/device-auth';
import type { Platform } from '@carillon/core/platforms';
import { type NamedPushHost, readPushEndpoint } from '@carillon/core/web-push-endpoint';
import type { ProviderAddress } from '@carillon/store/documents';
import { check } from '../http/check.ts';
import type { RegisteringApp } from '../http/rate-limits.ts';
import { type AppFinder, findNamed } from './find-named.ts';
import { type RegisterRequest, registerRequest } from './schema.ts';

/** What registering needs. */
export interface RegisterDeps extends AppFinder {
  authKeys: DeviceAuthKeys;
  /** `replaced`: the devices that this installation was before. */
  register(
    app: string,
    platform: Platform,
    address?: ProviderAddress,
  ): Promise<{ token: string; replaced: string[] }>;
  dropSubscriptions(app: string, token: string): Promise<void>;
  /** @throws ApiError RATE_LIMIT_EXCEEDED */
  countRegistration(address: string, app: RegisteringApp): Promise<void>;
  /** False: a failure was seen lately, nobody may get a new token. */
  isQuiet(): boolean;
  /** Web Push services besides the browsers' own. */
  webPushHosts: readonly NamedPushHost[];
}

/**
 * `POST /register`: a new device of an app, and the credentials it connects with.
 *
 * @param address the client's
 * @throws ApiError INVALID_PARAM, INVALID_APP_ID, REGISTRATION_CLOSED, RATE_LIMIT_EXCEEDED, SERVICE_UNAVAILABLE
 */
export async function register(
  deps: RegisterDeps,
  value: unknown,
  address: string,
): Promise<{ token: string; auth: string }> {
  if (!deps.isQuiet()) throw new ApiError('SERVICE_UNAVAILABLE');
  const request = check(registerRequest, value);
  const provider = providerAddress(request, deps.webPushHosts);
  const app = await findNamed(deps, request);
  if (app === undefined) throw new ApiError('INVALID_APP_ID');
  if (app.registrationClosed === true) throw new ApiError('REGISTRATION_CLOSED');
  await deps.countRegistration(address, app);
  const { token, replaced } = await deps.register(app._id, request.platform, provider);
  for (const gone of replaced) await deps.dropSubscriptions(app._id, gone);
  return { token, auth: deviceAuth(deps.authKeys, token) };
}

function providerAddress(
  request: RegisterRequest,
  webPushHosts: readonly NamedPushHost[],
): ProviderAddress | undefined {
  if (request.platform === 'ios') return appleAddress(request);
  if (request.platform === 'android' && request.fcmToken !== undefined) {
    return { channel: 'fcm', address: request.fcmToken };
  }
  if (request.platform !== 'web') return undefined;
  const { endpoint, key, auth } = request.subscription;
  if (readPushEndpoint(endpoint, webPushHosts) === undefined) {
    throw new ApiError('INVALID_PARAM', 'The subscription\'s "endpoint" is of no push service.');
  }
  return { channel: 'web-push', address: endpoint, p256dh: key, auth };
}

/** The address of an iOS device; undefined without a push token. */
export function appleAddress(given: {
  pushToken?: string | null | undefined;
  pushEnvironment?: 'development' | 'production' | undefined;
  pushBundle?: string | undefined;
}): ProviderAddress | undefined {
  const { pushToken, pushEnvironment: environment, pushBundle: bundle } = given;
  if (typeof pushToken !== 'string' || environment === undefined || bundle === undefined) {
    return undefined;
  }
  return { channel: 'apns', address: pushToken, environment, bundle };
}
