import type { Routing } from '../http/route.ts';
import type { Routes } from '../http/server.ts';
import { type BulkPresenceDeps, bulkPresence } from './bulk-presence.ts';
import { type DeviceInfoDeps, deviceInfo } from './device-info.ts';

/** 1,000 tokens of the longest kind. */
const PRESENCE_BODY_BYTES = 128 * 1024;

/** Asking after devices (specification 4.4, 4.5). */
export function deviceRoutes(routing: Routing, deps: DeviceInfoDeps & BulkPresenceDeps): Routes {
  return (router) => {
    router.post(
      '/devices/presence',
      routing.backend({ bodyBytes: PRESENCE_BODY_BYTES }, ({ body }, { app }) =>
        bulkPresence(deps, app._id, body.value),
      ),
    );
    router.get(
      '/devices/:token',
      routing.backend({}, ({ params }, { app }) => deviceInfo(deps, app._id, params.token ?? '')),
    );
  };
}
