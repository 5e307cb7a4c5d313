import { isScheduled, isVisible, toUnixSeconds } from '@carillon/accept/push-status';
import { ApiError } from '@carillon/core/api-error';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import type { DeviceDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import type { AreOnline } from './get-presence.ts';

/** Collections that the device info is read from. */
type DeviceInfoStore = Pick<
  Store,
  'devices' | 'subscriptions' | 'pending' | 'inbox' | 'pushes' | 'clock'
>;

/** A device of an app, and the time for which a completed push is shown. */
interface DeviceInfoRequest {
  app: string;
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
  // Before the device is known to be the app's, only what is the app's is read: an unknown device costs the same.
  const [device, unclosedPushIds] = await Promise.all([
    store.devices.find(token),
    store.pending.findUnclosedPushes(app, token),
  ]);
  if (device === undefined || device.deletedAt !== undefined) {
    throw new ApiError('INVALID_DEVICE_TOKEN');
  }
  if (device.app !== app) throw new ApiError('APP_MISMATCH');
  // The inbox is read after the batches: a batch writes its inbox rows before it closes, so no push is missed.
  const [[online = false], subscriptions, rows] = await Promise.all([
    areOnline([token]),
    store.subscriptions.listTopics(token),
    store.inbox.listRows(token),
  ]);
  const pushIds = new Set([...unclosedPushIds, ...rows.map(({ push }) => push)]);
  const pending = await listPendingNotifications(store, request, pushIds);
  const head = JSON.stringify({
    device: { date: toUnixSeconds(device.registeredAt), platform: device.platform },
    subscriptions,
    presence: buildPresence(device, online, store.clock.now()),
  });
  return `${head.slice(0, -1)},"pending_notifications":[${pending.join(',')}]}`;
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
  const pushes = (await store.pushes.payloads(app, [...ids]))
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
