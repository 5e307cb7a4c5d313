import { shownWay } from '@carillon/store/device-ways';
import type { AppDocument, DeviceDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { type Page, type PageQuery, toPage } from './page.ts';
import { toUnixSeconds } from './pushes.ts';
import { requireApp } from './require-app.ts';

/** Device with the names and times (unix seconds) of the HTTP API. */
export type DeviceView = ReturnType<typeof toDeviceView>;

/**
 * Lists the devices of an app in order of token.
 *
 * @throws AdminError APP_NOT_FOUND
 */
export async function listDevices(
  store: Pick<Store, 'apps' | 'devices'>,
  app: string,
  query: PageQuery,
): Promise<Page<DeviceView>> {
  const found = await requireApp(store, app);
  const devices = await store.devices.list(app, query.cursor ?? '', query.limit);
  const views = devices.map((device) => toDeviceView(device, found));
  return toPage(views, query, ({ token }) => token);
}

function toDeviceView(device: DeviceDocument, app: AppDocument) {
  return {
    token: device._id,
    date: toUnixSeconds(device.registeredAt),
    platform: device.platform,
    ...shownWay(device, app),
    last_active: toUnixSeconds(device.lastActiveAt),
    ...(device.uninstalled && { uninstalled: true as const }),
    ...(device.unsubscribed && { unsubscribed: true as const }),
  };
}
