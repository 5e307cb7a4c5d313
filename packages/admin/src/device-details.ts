import { DEVICE_TOKEN } from '@carillon/core/limits';
import type { PresenceReader } from '@carillon/presence/presence-reader';
import type { Reports } from '@carillon/reports/reports';
import { pushKindOf, shownWay } from '@carillon/store/device-ways';
import type { DeviceDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { AdminError } from './admin-error.ts';
import type { PageQuery } from './page.ts';

/** Text that sorts after every push id, which is hexadecimal. */
const AFTER_ALL_PUSH_IDS = 'g';

/** Presence of a device; `unknown`: Redis did not respond. */
export type PresenceView = { state: 'online'; gateway: string } | { state: 'offline' | 'unknown' };

/**
 * Returns a device with its way, its presence, its topics and the number of pushes in its inbox. Times are milliseconds
 * since 1970.
 *
 * @throws AdminError DEVICE_NOT_FOUND
 */
export async function getDeviceDetails(
  store: Pick<Store, 'apps' | 'devices' | 'subscriptions' | 'inbox'>,
  presenceReader: Pick<PresenceReader, 'lookup'>,
  token: string,
) {
  const device = await requireDevice(store, token);
  const [owner, presence, subscriptions, inbox] = await Promise.all([
    store.apps.find(device.app),
    readPresence(presenceReader, token),
    store.subscriptions.listTopics(token),
    store.inbox.count(token),
  ]);
  const { app, platform, registeredAt, lastActiveAt, provider, uninstalled, unsubscribed } = device;
  const { replacedBy, replaces, expiresAt } = device;
  const pushKind = pushKindOf(device);
  return {
    ...{ token, app, platform, ...shownWay(device, owner), presence, subscriptions, inbox },
    registeredAt: registeredAt.getTime(),
    lastActiveAt: lastActiveAt.getTime(),
    ...(expiresAt !== undefined && { expiresAt: expiresAt.getTime() }),
    ...(pushKind !== undefined && { pushKind }),
    ...(provider !== undefined && {
      provider: { channel: provider.channel, since: provider.since.getTime() },
    }),
    ...(uninstalled && { uninstalled }),
    ...(unsubscribed && { unsubscribed }),
    ...(replacedBy !== undefined && { replacedBy }),
    ...(replaces !== undefined && { replaces }),
  };
}

/**
 * Lists the pushes to a device with their status there, the newest first. Times are milliseconds since 1970.
 *
 * @throws AdminError DEVICE_NOT_FOUND
 */
export async function listDevicePushes(
  store: Pick<Store, 'devices'> & Pick<Reports, 'pushesOfDevice'>,
  token: string,
  { cursor = AFTER_ALL_PUSH_IDS, limit }: PageQuery,
) {
  const { app } = await requireDevice(store, token);
  const { pushes, next } = await store.pushesOfDevice.list({ app, token, before: cursor, limit });
  const items = pushes.map(({ push, recipient, status }) => ({
    id: push._id,
    state: push.state,
    acceptedAt: push.acceptedAt.getTime(),
    expiresAt: push.expiresAt.getTime(),
    channel: recipient.channel,
    ...status,
  }));
  return { items, ...(next !== undefined && { next }) };
}

/**
 * Finds a device of any app: callers check the account.
 *
 * @throws AdminError DEVICE_NOT_FOUND
 */
export async function requireDevice(
  { devices }: Pick<Store, 'devices'>,
  token: string,
): Promise<DeviceDocument> {
  const device = DEVICE_TOKEN.test(token) ? await devices.find(token) : undefined;
  if (device === undefined || device.deletedAt !== undefined)
    throw new AdminError('DEVICE_NOT_FOUND', `There is no device ${token}.`);
  return device;
}

async function readPresence(
  presenceReader: Pick<PresenceReader, 'lookup'>,
  token: string,
): Promise<PresenceView> {
  try {
    const [entry] = await presenceReader.lookup([token]);
    return entry === undefined ? { state: 'offline' } : { state: 'online', gateway: entry.gateway };
  } catch {
    return { state: 'unknown' };
  }
}
