import { ApiError } from '@carillon/core/api-error';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import type { DeviceDocument, InboxDocument, PushDocument } from '@carillon/store/documents';
import { isVisible, unixSeconds } from '../push/push-status.ts';

type Payload = Pick<PushDocument, '_id' | 'state' | 'acceptedAt' | 'expiresAt' | 'data'>;

/** What the device info needs of the store and of presence. */
export interface DeviceInfoDeps {
  findDevice(token: string): Promise<DeviceDocument | undefined>;
  areOnline(tokens: readonly string[]): Promise<boolean[]>;
  topicsOf(token: string): Promise<string[]>;
  inboxRows(token: string): Promise<InboxDocument[]>;
  payloads(app: string, pushes: readonly string[]): Promise<Payload[]>;
  now(): number;
  retentionMs: number;
}

/**
 * `GET /devices/<device_token>` (specification 4.4) as JSON text.
 *
 * @throws ApiError INVALID_DEVICE_TOKEN, APP_MISMATCH
 */
export async function deviceInfo(
  deps: DeviceInfoDeps,
  app: string,
  token: string,
): Promise<string> {
  if (!DEVICE_TOKEN.test(token)) throw new ApiError('INVALID_DEVICE_TOKEN');
  // Asked at once, and thrown away should the device be nobody's or somebody else's.
  const [device, [online = false], subscriptions, pending] = await Promise.all([
    deps.findDevice(token),
    deps.areOnline([token]),
    deps.topicsOf(token),
    pendingOf(deps, app, token),
  ]);
  if (device === undefined || device.deletedAt !== undefined) {
    throw new ApiError('INVALID_DEVICE_TOKEN');
  }
  if (device.app !== app) throw new ApiError('APP_MISMATCH');
  const head = JSON.stringify({
    device: { date: unixSeconds(device.registeredAt), platform: device.platform },
    subscriptions,
    presence: presenceOf(device, online, deps.now()),
  });
  return `${head.slice(0, -1)},"pending_notifications":[${pending.join(',')}]}`;
}

function presenceOf(device: DeviceDocument, online: boolean, nowMs: number): object {
  const date = unixSeconds(device.lastActiveAt);
  return {
    online,
    last_active: { date, seconds_ago: Math.max(0, Math.floor(nowMs / 1_000) - date) },
    ...(device.uninstalled && { uninstalled: true }),
    ...(device.unsubscribed && { unsubscribed: true }),
  };
}

/** Entries as JSON text, oldest push first: each payload as it came in. */
async function pendingOf(deps: DeviceInfoDeps, app: string, token: string): Promise<string[]> {
  const rows = await deps.inboxRows(token);
  if (rows.length === 0) return [];
  const pushes = await deps.payloads(
    app,
    rows.map((row) => row.push),
  );
  const byId = new Map(pushes.map((push) => [push._id, push]));
  return rows.flatMap((row) => {
    const push = byId.get(row.push);
    if (push === undefined || !isVisible(push, deps.now(), deps.retentionMs)) return [];
    const date = unixSeconds(push.acceptedAt);
    const expiration = unixSeconds(push.expiresAt);
    return `{"id":"${push._id}","date":${date},"payload":${push.data},"expiration":${expiration}}`;
  });
}
