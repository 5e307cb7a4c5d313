import { ApiError } from '@carillon/core/api-error';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import type { Reports } from '@carillon/reports/reports';
import { type ClearDevices, deleteDevice } from '@carillon/store/delete-device';
import type { Store } from '@carillon/store/store';
import type { Routing } from '../http/routing.ts';
import type { RouteRegistrar } from '../http/server.ts';
import { getDeviceInfo } from './get-device-info.ts';
import { type AreOnline, getPresence } from './get-presence.ts';

/** Maximum body of a presence request: 1,000 tokens of maximum length. */
const PRESENCE_BODY_BYTES = 128 * 1024;

/** Registers the routes that show devices (specification 4.4, 4.5) and delete them. */
export function deviceRoutes(
  routing: Routing,
  store: Store & Reports,
  presence: { areOnline: AreOnline; disconnect: (token: string) => Promise<void> },
  clearDevices: ClearDevices,
  retentionMs: number,
): RouteRegistrar {
  const { areOnline, disconnect } = presence;
  return (router) => {
    router.post(
      '/devices/presence',
      routing.withApiKey({ maxBodyBytes: PRESENCE_BODY_BYTES }, ({ body }, { app }) =>
        getPresence(store, areOnline, app._id, body.value),
      ),
    );
    router.get(
      '/devices/:token',
      routing.withApiKey({}, ({ params }, { app }) =>
        getDeviceInfo(store, areOnline, { app, token: params.token ?? '', retentionMs }),
      ),
    );
    router.delete(
      '/devices/:token',
      routing.withApiKey({}, ({ params }, { app }) =>
        handleDeleteDevice(store, { disconnect, clearDevices }, app._id, params.token ?? ''),
      ),
    );
  };
}

/**
 * Handles `DELETE /devices/<device_token>`.
 *
 * @throws ApiError INVALID_DEVICE_TOKEN also for a device of another app
 */
async function handleDeleteDevice(
  ...[store, deletion, app, token]: Parameters<typeof deleteDevice>
): Promise<{ success: true }> {
  const isDeleted = DEVICE_TOKEN.test(token) && (await deleteDevice(store, deletion, app, token));
  if (!isDeleted) throw new ApiError('INVALID_DEVICE_TOKEN');
  return { success: true };
}
