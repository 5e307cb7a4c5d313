import { ApiError } from '@carillon/core/api-error';
import { AddressConflictError } from '@carillon/store/address-holders';
import type { Store } from '@carillon/store/store';
import type { RequestHandler } from 'express';
import type { RateLimits } from '../http/rate-limits.ts';
import type { Routing } from '../http/routing.ts';
import type { RouteRegistrar } from '../http/server.ts';
import { subscribe, unsubscribe } from '../topics/subscribe.ts';
import { changeDeviceTopics } from './change-device-topics.ts';
import { checkDevice } from './check-device.ts';
import { getPublicKey } from './get-public-key.ts';
import type { OutageWatch } from './outage-watch.ts';
import { type RegisterContext, registerDevice } from './register-device.ts';
import { setAddress } from './set-address.ts';

/** Parts of the process, besides the store, that the device endpoints use. */
interface RegistrationContext extends RegisterContext {
  rateLimits: RateLimits;
  outageWatch: OutageWatch;
}

const TOPICS_BODY_BYTES = 128 * 1024;

const PREFLIGHT_HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-allow-methods': 'POST',
  'access-control-allow-headers': 'content-type',
  'access-control-max-age': '86400',
};

/** Registers the routes that devices call without an API key (compatibility page, "Devices, HTTP"). */
export function registrationRoutes(
  routing: Routing,
  store: Store,
  context: RegistrationContext,
): RouteRegistrar {
  const handleTopicChange = (change: typeof subscribe | typeof unsubscribe) =>
    routing.apiKeyOrDevice(
      { maxBodyBytes: TOPICS_BODY_BYTES },
      ({ body }, { app }) => change(store, app._id, body.value),
      ({ body, address }) =>
        changeDeviceTopics(store, context, { change, value: body.value, address }),
    );
  const handlers = {
    '/register': routing.withDeviceAuth(({ body, address }) =>
      registerDevice(store, context, body.value, address).catch(toUnavailable),
    ),
    '/devices/auth': routing.withDeviceAuth(({ body }) => checkDevice(store, context, body.value)),
    '/devices/token': routing.withDeviceAuth(({ body }) =>
      setAddress(store, context, body.value).catch(toUnavailable),
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

/** Maps a conflict between registrations to SERVICE_UNAVAILABLE: the device retries, and the conflict is over then. */
function toUnavailable(error: unknown): never {
  throw error instanceof AddressConflictError ? new ApiError('SERVICE_UNAVAILABLE') : error;
}
