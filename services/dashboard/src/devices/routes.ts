import { getDeviceDetails, listDevicePushes, requireDevice } from '@carillon/admin/device-details';
import { listDevices } from '@carillon/admin/devices';
import { countIdleDevices } from '@carillon/admin/idle-devices';
import { getTopic, listSubscribers, listTopics } from '@carillon/admin/topics';
import { TOPIC_NAME } from '@carillon/core/limits';
import type { PresenceReader } from '@carillon/presence/presence-reader';
import type { Reports } from '@carillon/reports/reports';
import { deleteDevice } from '@carillon/store/delete-device';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import type { AccountOf } from '../account-of.ts';
import { objectId, pageFields } from '../http/inputs.ts';
import { ConsoleError, defineRoute, notFound } from '../http/route.ts';
import { deviceToken } from '../inputs.ts';

const ofApp = { app: objectId, ...pageFields };
const ofTopic = z.object({ app: objectId, topic: z.string().regex(TOPIC_NAME) });
const ofDevice = z.object({ token: deviceToken });

/** Makes the routes that list and show devices and topics, and that disconnect and delete a device. */
export function deviceRoutes(
  store: Store & Reports,
  presenceReader: Pick<PresenceReader, 'lookup'>,
  deletion: Parameters<typeof deleteDevice>[1],
  accountOf: AccountOf,
) {
  return [
    ...readRoutes(store, presenceReader, accountOf),
    ...topicRoutes(store, accountOf),
    ...changeRoutes(store, deletion, accountOf),
  ];
}

function readRoutes(
  store: Store & Reports,
  presenceReader: Pick<PresenceReader, 'lookup'>,
  accountOf: AccountOf,
) {
  return [
    defineRoute({
      method: 'get',
      path: '/apps/:app/devices',
      isPublic: true,
      role: 'viewer',
      input: z.object(ofApp),
      account: ({ app }) => accountOf.app(app),
      async handle({ input: { app, ...query } }) {
        const { items, next } = await listDevices(store, app, query);
        const devices = items.map(({ date, last_active, ...device }) => ({
          ...device,
          registeredAt: date * 1_000,
          lastActiveAt: last_active * 1_000,
        }));
        return { items: devices, ...(next !== undefined && { next }) };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/apps/:app/idle-devices',
      role: 'viewer',
      input: z.object({ app: objectId }),
      account: ({ app }) => accountOf.app(app),
      handle: ({ input: { app } }) => countIdleDevices(store, app),
    }),
    defineRoute({
      method: 'get',
      path: '/devices/:token',
      role: 'viewer',
      input: ofDevice,
      account: ({ token }) => accountOf.device(token),
      handle: ({ input }) => getDeviceDetails(store, presenceReader, input.token),
    }),
    defineRoute({
      method: 'get',
      path: '/devices/:token/pushes',
      isPublic: true,
      role: 'viewer',
      input: ofDevice.extend(pageFields),
      account: ({ token }) => accountOf.device(token),
      handle: ({ input: { token, ...query } }) => listDevicePushes(store, token, query),
    }),
  ];
}

function topicRoutes(
  store: Pick<Store, 'apps' | 'topics' | 'subscriptions'>,
  accountOf: AccountOf,
) {
  return [
    defineRoute({
      method: 'get',
      path: '/apps/:app/topics',
      isPublic: true,
      role: 'viewer',
      input: z.object(ofApp),
      account: ({ app }) => accountOf.app(app),
      handle: ({ input: { app, ...query } }) => listTopics(store, app, query),
    }),
    defineRoute({
      method: 'get',
      path: '/apps/:app/topics/:topic',
      isPublic: true,
      role: 'viewer',
      input: ofTopic,
      account: ({ app }) => accountOf.app(app),
      handle: ({ input: { app, topic } }) => getTopic(store, app, topic),
    }),
    defineRoute({
      method: 'get',
      path: '/apps/:app/topics/:topic/subscribers',
      isPublic: true,
      role: 'viewer',
      input: ofTopic.extend(pageFields),
      account: ({ app }) => accountOf.app(app),
      handle: ({ input: { app, topic, ...query } }) => listSubscribers(store, app, topic, query),
    }),
  ];
}

function changeRoutes(
  store: Store & Reports,
  deletion: Parameters<typeof deleteDevice>[1],
  accountOf: AccountOf,
) {
  return [
    defineRoute({
      method: 'post',
      path: '/devices/:token/disconnect',
      role: 'operator',
      input: ofDevice,
      account: ({ token }) => accountOf.device(token),
      audit: 'device.disconnect',
      async handle({ input: { token } }) {
        await requireDevice(store, token);
        await deletion.disconnect(token).catch(() => {
          throw new ConsoleError('UNAVAILABLE', 'Redis does not respond. Try again shortly.');
        });
        return { disconnected: true };
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/devices/:token',
      role: 'operator',
      input: ofDevice,
      account: ({ token }) => accountOf.device(token),
      audit: 'device.delete',
      async handle({ input: { token } }) {
        const { app } = await requireDevice(store, token);
        await store.knownWebhooks.refreshIfStale();
        if (!(await deleteDevice(store, deletion, app, token))) throw notFound();
        return { deleted: true };
      },
    }),
  ];
}
