import { createHash } from 'node:crypto';
import { ApiError } from '@carillon/core/api-error';
import type { ProviderAddress } from '@carillon/core/channels';
import type { PushKind } from '@carillon/core/channels/apns';
import { createDeviceAuth, type DeviceAuthKeys } from '@carillon/core/device-auth';
import { invalidParameter, validate } from '@carillon/core/validate';
import { type AllowedPushHosts, parsePushEndpoint } from '@carillon/core/web-push-endpoint';
import { resultWithin } from '@carillon/core/with-timeout';
import { usesFcmForAndroid } from '@carillon/store/apps';
import type { ClearDevices } from '@carillon/store/delete-device';
import { DeletedDeviceError } from '@carillon/store/device-registration';
import { pushKindOf } from '@carillon/store/device-ways';
import type { AppDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import type { RateLimits } from '../http/rate-limits.ts';
import { authenticateInstallation, type DeviceAuthContext } from './check-device.ts';
import { findAppByIdOrName } from './find-app.ts';
import type { OutageWatch } from './outage-watch.ts';
import { type PhoneAddress, type RegisterRequest, registerRequest } from './schema.ts';

/** Maximum time for which a registration waits for the devices that it has replaced: they may have many topics and pushes. */
const MAX_CLEARING_MS = 1_000;

/** Parts of the process, besides the store, that registering uses. */
export interface RegisterContext extends DeviceAuthContext {
  clearDevices: ClearDevices;
  /** Closes the connection of a device; throws if Redis fails. */
  disconnect: (token: string) => Promise<void>;
  authKeys: DeviceAuthKeys;
  rateLimits: Pick<RateLimits, 'countRegistration'>;
  outageWatch: Pick<OutageWatch, 'isHealthy'> & DeviceAuthContext['outageWatch'];
  /** Web Push services besides those of the browser vendors. */
  webPushHosts: AllowedPushHosts;
}

/**
 * Handles `POST /register`. Returns the credentials of the device that the installation proves to be, with the address that
 * it registers; without a proof creates a device of the app.
 *
 * @param address the client's
 * @throws ApiError INVALID_PARAM, INVALID_APP_ID, REGISTRATION_CLOSED, RATE_LIMIT_EXCEEDED, SERVICE_UNAVAILABLE
 */
export async function registerDevice(
  store: Pick<Store, 'apps' | 'credentials' | 'devices' | 'suspensions'>,
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
  // Before the proofs: a guess of a device id costs as much as a registration.
  await context.rateLimits.countRegistration(address, app);
  const deviceIdHash = hashDeviceId(app._id, request);
  const expiresInSeconds = request.platform === 'ios' ? request.expires_in : undefined;
  const options = { usesFcm: await canUseFcm(store, app), deviceIdHash, expiresInSeconds };
  const known = await findKnownDevice(store, context, app._id, request, deviceIdHash);
  const renewed =
    known === undefined ? undefined : await renewDevice(store, app._id, known, provider, options);
  const { token, replaced } =
    renewed ?? (await store.devices.register(app._id, request.platform, provider, options));
  await clearReplaced(context, app._id, replaced);
  return { token, auth: createDeviceAuth(context.authKeys, token) };
}

/** Checks whether an app sends to Android devices over FCM: former ones are reached by nothing else. */
export async function canUseFcm(
  { credentials }: Pick<Store, 'credentials'>,
  app: AppDocument | undefined,
): Promise<boolean> {
  return app !== undefined && usesFcmForAndroid(app) && credentials.has(app._id, 'fcm');
}

/** Disconnects replaced devices and clears them, for a second at most: the scheduler does the rest. */
export async function clearReplaced(
  { clearDevices, disconnect }: Pick<RegisterContext, 'clearDevices' | 'disconnect'>,
  app: string,
  replaced: readonly string[],
): Promise<void> {
  // If Redis fails, its gateway closes it at its next ping.
  for (const token of replaced) void disconnect(token).catch(() => undefined);
  await resultWithin(clearDevices(app, replaced), MAX_CLEARING_MS, undefined);
}

/** Hashes an installation's own id: different in each app. */
function hashDeviceId(app: string, request: RegisterRequest): string | undefined {
  const { deviceId } = request;
  const kind = requestedKind(request);
  // An installation has any number of Live Activities at once: each is a device of its own.
  if (deviceId === undefined || kind === 'liveactivity') return undefined;
  const hash = sha256(`${app}:${deviceId}`);
  return kind === undefined ? hash : sha256(`${hash}:${kind}`);
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

/** Returns the kind of the token that an installation registers; undefined for `alert`. */
function requestedKind(request: RegisterRequest): PushKind | undefined {
  if (request.platform !== 'ios' || request.pushKind === 'alert') return undefined;
  return request.pushKind;
}

/**
 * Finds the device that an installation proves to be, by its credentials, or else by its own id; undefined without a valid
 * proof.
 *
 * @throws any error of a lookup that fails: an outage must not replace the device (guarantee G15)
 */
async function findKnownDevice(
  store: Pick<Store, 'devices'>,
  context: DeviceAuthContext,
  app: string,
  request: RegisterRequest,
  deviceIdHash: string | undefined,
): Promise<string | undefined> {
  const { token, auth, platform } = request;
  if (token !== undefined && auth !== undefined) {
    const device = await authenticateInstallation(store, context, token, auth).catch(
      ignoreRejection,
    );
    const isSame = device?.app === app && device.platform === platform;
    // The phone's own credentials prove no device for its calls or its Live Activities: they would replace the phone.
    if (isSame && (await hasKind(store, token, request))) return token;
  }
  if (deviceIdHash === undefined) return undefined;
  return store.devices.findByDeviceId(app, platform, deviceIdHash);
}

/** Checks whether a device is for the same kind of notifications as the token that an installation registers. */
async function hasKind(
  { devices }: Pick<Store, 'devices'>,
  token: string,
  request: RegisterRequest,
): Promise<boolean> {
  if (request.platform !== 'ios') return true;
  const device = await devices.find(token);
  return device !== undefined && pushKindOf(device) === requestedKind(request);
}

function ignoreRejection(error: unknown): undefined {
  if (!(error instanceof ApiError)) throw error;
}

/** Writes a device's new address, also if it is a former one; returns undefined if it was deleted since it was found. */
async function renewDevice(
  { devices }: Pick<Store, 'devices'>,
  ...[app, token, ...rest]: Parameters<Store['devices']['renew']>
): Promise<{ token: string; replaced: string[] } | undefined> {
  try {
    return { token, replaced: await devices.renew(app, token, ...rest) };
  } catch (error) {
    if (!(error instanceof DeletedDeviceError)) throw error;
  }
  if (!(await devices.restore(app, token))) return undefined;
  return { token, replaced: await devices.renew(app, token, ...rest) };
}

function parseProviderAddress(
  request: RegisterRequest,
  webPushHosts: AllowedPushHosts,
): ProviderAddress | undefined {
  if (request.platform === 'ios' || request.platform === 'android')
    return parsePhoneAddress(request.platform, request);
  if (request.platform !== 'web') return undefined;
  const { endpoint, key, auth } = request.subscription;
  if (parsePushEndpoint(endpoint, webPushHosts) === undefined) {
    const address = webPushHosts.any
      ? 'an https URL with a public host'
      : 'the address of a push service';
    throw invalidParameter('subscription.endpoint', `must be ${address}`);
  }
  return { channel: 'web-push', address: endpoint, p256dh: key, auth };
}

/** Returns the address of a phone; undefined without a token of its provider. */
export function parsePhoneAddress(
  platform: 'android' | 'ios',
  fields: PhoneAddress,
): ProviderAddress | undefined {
  const { pushToken, pushEnvironment: environment, pushBundle: bundle, fcmToken } = fields;
  const { pushKind: kind = 'alert' } = fields;
  if (fcmToken !== undefined)
    return { channel: 'fcm', address: fcmToken, ...(platform === 'ios' && { isApple: true }) };
  if (typeof pushToken !== 'string' || environment === undefined || bundle === undefined)
    return undefined;
  const ofKind = kind === 'alert' ? {} : { kind };
  return { channel: 'apns', address: pushToken, environment, bundle, ...ofKind };
}
