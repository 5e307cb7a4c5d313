import type { Routing } from '../http/route.ts';
import type { Routes } from '../http/server.ts';
import { type CheckDeviceDeps, checkDevice } from './check-device.ts';
import { type RegisterDeps, register } from './register.ts';

/** What devices call, without an API key. */
export function registrationRoutes(routing: Routing, deps: RegisterDeps & CheckDeviceDeps): Routes {
  return (router) => {
    router.post(
      '/register',
      routing.device(({ body }) => register(deps, body.value)),
    );
    router.post(
      '/devices/auth',
      routing.device(({ body }) => checkDevice(deps, body.value)),
    );
  };
}
