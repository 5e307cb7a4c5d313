import { isScheduled, isVisible, toUnixSeconds } from '@carillon/accept/push-visibility';
import { ApiError } from '@carillon/core/api-error';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import type { Reports } from '@carillon/reports/reports';
import { pushKindOf, shownWay } from '@carillon/store/device-ways';
import type { AppDocument, DeviceDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import type { AreOnline } from './get-presence.ts';

/** Collections that the device info is read from. */
type DeviceInfoStore = Pick<Store, 'devices' | 'pushes' | 'clock'> &
  Pick<Reports, 'deviceOverviews'>;

/** A device of an app, and the time for which a completed push is shown. */
interface DeviceInfoRequest {
  app: Pick<AppDocument, '_id' | 'fcm'>;
  token: string;
  retentionMs: number;
}

/**
 * Handles `GET /devices/<device_token>` (specification 4.4). Returns JSON text.
 *
 * @throws ApiError INVALID_DEVICE_TOKEN, APP_MISMATCH
 */
export async function getDeviceInfo(
  store: DeviceInfoStore,
  areOnline: AreOnline,
  request: DeviceInfoRequest,
): Promise<string> {
  const { app, token } = request;
  if (!DEVICE_TOKEN.test(token)) throw new ApiError('INVALID_DEVICE_TOKEN');
  // Of a device that is not the app's no more is read than of one that does not exist: both cost the same.
  const [overview, [online = false]] = await Promise.all([
    store.deviceOverviews.find(app._id, token),
    areOnline([token]),
  ]);
  if (overview === undefined) throw explainMissingDevice(await store.devices.find(token));
  const { device, topics, pendingPushes } = overview;
  const kind = pushKindOf(device);
  const pending = await listPendingNotifications(store, request, pendingPushes);
  const head = JSON.stringify({
    device: {
      date: toUnixSeconds(device.registeredAt),
      platform: device.platform,
      ...shownWay(device, app),
      ...(kind !== undefined && { push_kind: kind }),
      ...(device.expiresAt !== undefined && { expires: toUnixSeconds(device.expiresAt) }),
      ...(device.replacedBy !== undefined && { replaced_by: device.replacedBy }),
      ...(device.replaces !== undefined && { replaces: device.replaces }),
    },
    subscriptions: topics,
    presence: buildPresence(device, online, store.clock.now()),
  });
  return `${head.slice(0, -1)},"pending_notifications":[${pending.join(',')}]}`;
}

/**
 * Checks that a device is the app's.
 *
 * @throws ApiError INVALID_DEVICE_TOKEN, APP_MISMATCH
 */
export async function assertDeviceOf(
  { devices }: Pick<Store, 'devices'>,
  app: string,
  token: string,
): Promise<void> {
  const device = DEVICE_TOKEN.test(token) ? await devices.find(token) : undefined;
  if (device?.app !== app || device.deletedAt !== undefined) throw explainMissingDevice(device);
}

/** Returns the error for a device that is not the app's. */
function explainMissingDevice(device: DeviceDocument | undefined): ApiError {
  const isForeign = device !== undefined && device.deletedAt === undefined;
  return new ApiError(isForeign ? 'APP_MISMATCH' : 'INVALID_DEVICE_TOKEN');
}

function buildPresence(device: DeviceDocument, online: boolean, nowMs: number): object {
  const date = toUnixSeconds(device.lastActiveAt);
  return {
    online,
    last_active: { date, seconds_ago: Math.max(0, Math.floor(nowMs / 1_000) - date) },
    ...(device.uninstalled && { uninstalled: true }),
    ...(device.unsubscribed && { unsubscribed: true }),
  };
}

/** Lists those of these pushes that are shown, oldest first, as JSON text with the payloads' original text. */
async function listPendingNotifications(
  store: DeviceInfoStore,
  { app, retentionMs }: DeviceInfoRequest,
  ids: ReadonlySet<string>,
): Promise<string[]> {
  if (ids.size === 0) return [];
  const now = store.clock.now();
  const pushes = (await store.pushes.payloads(app._id, [...ids]))
    .filter((push) => isVisible(push, now, retentionMs) && !isScheduled(push, now))
    .sort((a, b) => (a._id < b._id ? -1 : 1));
  const newest = new Map(pushes.map(({ _id, collapse = _id }) => [collapse, _id]));
  return pushes
    .filter(({ _id, collapse = _id }) => newest.get(collapse) === _id)
    .map(({ _id, acceptedAt, expiresAt, data }) => {
      const date = toUnixSeconds(acceptedAt);
      const expiration = toUnixSeconds(expiresAt);
      return `{"id":"${_id}","date":${date},"payload":${data},"expiration":${expiration}}`;
    });
}
