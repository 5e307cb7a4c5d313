import type { Routing } from '../http/route.ts';
import type { Routes } from '../http/server.ts';
import { type DeviceInfoDeps, deviceInfo } from './device-info.ts';

/** Asking after devices (specification 4.4). */
export function deviceRoutes(routing: Routing, deps: DeviceInfoDeps): Routes {
  return (router) => {
    router.get(
      '/devices/:token',
      routing.backend({}, ({ params }, { app }) => deviceInfo(deps, app._id, params.token ?? '')),
    );
  };
}
