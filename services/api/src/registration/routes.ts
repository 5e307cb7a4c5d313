import { ApiError } from '@carillon/core/api-error';
import { AddressContested } from '@carillon/store/registering';
import { answerPreflight } from '../http/preflight.ts';
import type { Routing } from '../http/route.ts';
import type { Routes } from '../http/server.ts';
import { type SubscribeDeps, subscribe, unsubscribe } from '../topics/subscribe.ts';
import { type CheckDeviceDeps, checkDevice } from './check-device.ts';
import { type PublicKeyDeps, publicKey } from './public-key.ts';
import { type RegisterDeps, register } from './register.ts';
import { type SetAddressDeps, setAddress } from './set-address.ts';
import { changeOwnTopics } from './subscribe-own.ts';

/** What the devices' own calls need. */
export type RegistrationDeps = RegisterDeps &
  PublicKeyDeps &
  CheckDeviceDeps &
  SetAddressDeps &
  SubscribeDeps;

const TOPICS_BODY_BYTES = 128 * 1024;

/** What devices call, without an API key (compatibility page, "Devices, HTTP"). */
export function registrationRoutes(routing: Routing, deps: RegistrationDeps): Routes {
  const topicChange = (change: typeof subscribe | typeof unsubscribe) =>
    routing.either(
      { bodyBytes: TOPICS_BODY_BYTES },
      ({ body }, { app }) => change(deps, app._id, body.value),
      ({ body }) => changeOwnTopics(deps, change, body.value),
    );
  const calls = {
    '/register': routing.device(({ body, address }) =>
      register(deps, body.value, address).catch(refuseContested),
    ),
    '/devices/auth': routing.device(({ body }) => checkDevice(deps, body.value)),
    '/devices/token': routing.device(({ body }) =>
      setAddress(deps, body.value).catch(refuseContested),
    ),
    '/devices/subscribe': topicChange(subscribe),
    '/devices/unsubscribe': topicChange(unsubscribe),
  };
  return (router) => {
    router.get(
      '/web-push/public-key',
      routing.deviceQuestion(({ query }) => publicKey(deps, query)),
    );
    for (const [path, handle] of Object.entries(calls)) {
      router.post(path, handle);
      router.options(path, answerPreflight);
    }
  };
}

/** Not a failure of ours: the device asks again, and by then the others are through. */
function refuseContested(error: unknown): never {
  throw error instanceof AddressContested ? new ApiError('SERVICE_UNAVAILABLE') : error;
}
