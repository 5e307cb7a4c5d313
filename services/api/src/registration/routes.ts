import { ApiError } from '@carillon/core/api-error';
import { validate } from '@carillon/core/validate';
import { AddressConflictError, DeletedDeviceError } from '@carillon/store/device-registration';
import type { Store } from '@carillon/store/store';
import type { RequestHandler } from 'express';
import type { RateLimits } from '../http/rate-limits.ts';
import type { Routing } from '../http/routing.ts';
import type { RouteRegistrar } from '../http/server.ts';
import { subscribe, unsubscribe } from '../topics/subscribe.ts';
import { changeDeviceTopics } from './change-device-topics.ts';
import { authenticateDevice, checkDevice } from './check-device.ts';
import { findAppByIdOrName } from './find-app.ts';
import type { OutageWatch } from './outage-watch.ts';
import {
  canUseFcm,
  clearReplaced,
  parsePhoneAddress,
  type RegisterContext,
  registerDevice,
} from './register-device.ts';
import { deviceTokenRequest, type PhoneAddress, publicKeyQuery } from './schema.ts';

/** Parts of the process, besides the store, that the device endpoints use. */
interface RegistrationContext extends RegisterContext {
  rateLimits: RateLimits;
  outageWatch: OutageWatch;
  /** For requests with an API key. */
  tenantStore: Store;
}

const TOPICS_BODY_BYTES = 128 * 1024;

const PREFLIGHT_HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-allow-methods': 'POST',
  'access-control-allow-headers': 'content-type',
  'access-control-max-age': '86400',
};

/**
 * Registers the routes that devices call without an API key (compatibility page, "Devices, HTTP").
 *
 * @param store for the requests of devices
 */
export function registrationRoutes(
  routing: Routing,
  store: Store,
  context: RegistrationContext,
): RouteRegistrar {
  const handleTopicChange = (change: typeof subscribe | typeof unsubscribe) =>
    routing.apiKeyOrDevice(
      { maxBodyBytes: TOPICS_BODY_BYTES },
      ({ body }, { app }) => change(context.tenantStore, app._id, body.value),
      ({ body, address }) =>
        changeDeviceTopics(store, context, { change, value: body.value, address }),
    );
  const handlers = {
    '/register': routing.withDeviceAuth(({ body, address }) =>
      registerDevice(store, context, body.value, address).catch(toDeviceError),
    ),
    '/devices/auth': routing.withDeviceAuth(({ body }) => checkDevice(store, context, body.value)),
    '/devices/token': routing.withDeviceAuth(({ body }) =>
      setAddress(store, context, body.value).catch(toDeviceError),
    ),
    '/devices/subscribe': handleTopicChange(subscribe),
    '/devices/unsubscribe': handleTopicChange(unsubscribe),
  };
  return (router) => {
    router.get(
      '/web-push/public-key',
      routing.publicGet(({ query }) => getPublicKey(store, query)),
    );
    for (const [path, handle] of Object.entries(handlers)) {
      router.post(path, handle);
      router.options(path, handlePreflight);
    }
  };
}

/** Allows a page of any origin to call a device endpoint (Fetch, CORS-preflight request). */
const handlePreflight: RequestHandler = (_request, response) => {
  response.writeHead(204, PREFLIGHT_HEADERS).end();
};

/**
 * Maps a conflict between registrations to SERVICE_UNAVAILABLE: the device retries, and the conflict is over then. A device that
 * was deleted meanwhile registers again, as after any other request.
 */
function toDeviceError(error: unknown): never {
  if (error instanceof DeletedDeviceError) throw new ApiError('INVALID_DEVICE_AUTH');
  throw error instanceof AddressConflictError ? new ApiError('SERVICE_UNAVAILABLE') : error;
}

/**
 * Handles `GET /web-push/public-key`. Returns the `applicationServerKey` that a page subscribes with (RFC 8292, 4).
 *
 * @param query returns the query parameter `appId`, or `app`: the page's host name
 * @throws ApiError INVALID_PARAM, INVALID_APP_ID, NO_WEB_PUSH_AUTH
 */
async function getPublicKey(
  store: Pick<Store, 'apps' | 'credentials'>,
  query: (name: string) => string | undefined,
): Promise<{ publicKey: string }> {
  const app = await findAppByIdOrName(
    store,
    validate(publicKeyQuery, { appId: query('appId'), app: query('app') }),
  );
  if (app === undefined) throw new ApiError('INVALID_APP_ID');
  const key = await store.credentials.webPushPublicKey(app._id);
  if (key === undefined) throw new ApiError('NO_WEB_PUSH_AUTH');
  return { publicKey: key };
}

/**
 * Handles `POST /devices/token`: stores the new APNs or FCM token of a phone, or removes it.
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_AUTH
 */
async function setAddress(
  store: Pick<Store, 'apps' | 'credentials' | 'devices'>,
  context: RegisterContext,
  value: unknown,
): Promise<{ success: true }> {
  const { token, auth, ...fields } = validate(deviceTokenRequest, value);
  const { app, platform } = await authenticateDevice(store, context, token, auth);
  if (platform !== 'ios' && platform !== 'android')
    throw new ApiError('INVALID_PARAM', 'Only Android and iOS devices have a push token.');
  if (platform === 'android' && hasAppleField(fields))
    throw new ApiError('INVALID_PARAM', 'An Android device has an "fcmToken" only.');
  const usesFcm = await canUseFcm(store, await store.apps.find(app));
  const address = parsePhoneAddress(platform, fields);
  const options = { usesFcm, keepsKind: fields.pushKind === undefined };
  const replaced = await store.devices.setAddress(app, token, address, options);
  await clearReplaced(context, app, replaced);
  return { success: true };
}

function hasAppleField({ pushToken, pushEnvironment, pushBundle }: PhoneAddress): boolean {
  return [pushToken, pushEnvironment, pushBundle].some((field) => typeof field === 'string');
}
