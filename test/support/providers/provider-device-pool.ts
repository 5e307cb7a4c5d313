import { randomBytes } from 'node:crypto';
import type {
  ProviderAddress,
  ProviderChannelName,
  Way,
} from '../../../packages/core/src/channels.ts';
import { newDeviceToken } from '../../../packages/core/src/ids.ts';
import type {
  DeviceDocument,
  SubscriptionDocument,
  TopicDocument,
} from '../../../packages/store/src/documents.ts';
import type { TestTenant } from '../api/tenants.ts';
import { openMongo } from '../mongo.ts';
import type { Sandbox } from './sandbox.ts';

const MAX_SUBSCRIBING = 20;

/** Many registered devices of one platform. */
export interface ProviderDevicePool {
  /** Device tokens. */
  tokens: string[];
  /** Provider tokens, or endpoints, in the same order. */
  addresses: string[];
}

/** iPhones with development builds. */
export function registerIphones(
  tenant: TestTenant,
  n: number,
  environment: 'development' | 'production' = 'development',
): Promise<ProviderDevicePool> {
  const bundle = 'com.example.carillon';
  const addresses = Array.from({ length: n }, (): ProviderAddress => {
    return { channel: 'apns', address: randomBytes(32).toString('hex'), environment, bundle };
  });
  return insertDevices(tenant, 'ios', addresses);
}

/** Android devices that have connected over MQTT once and are offline now; FCM is their fallback. */
export function registerAndroids(tenant: TestTenant, n: number): Promise<ProviderDevicePool> {
  return insertDevices(tenant, 'android', fcmAddresses(n), 'mqtt');
}

/** Android phones that never connect over MQTT: FCM alone reaches them, if the app uses FCM. */
export function registerAndroidsByFcm(tenant: TestTenant, n: number): Promise<ProviderDevicePool> {
  return insertDevices(tenant, 'android', fcmAddresses(n), 'fcm');
}

function fcmAddresses(n: number): ProviderAddress[] {
  return Array.from({ length: n }, (): ProviderAddress => {
    return { channel: 'fcm', address: `fcm-${randomBytes(20).toString('hex')}` };
  });
}

/** Browsers whose keys the sandbox holds. */
export async function registerBrowsers(
  tenant: TestTenant,
  sandbox: Pick<Sandbox, 'subscribe'>,
  n: number,
): Promise<ProviderDevicePool> {
  const addresses: ProviderAddress[] = [];
  const subscribeNext = async () => {
    while (addresses.length < n) {
      const index = addresses.push({ channel: 'web-push', address: '', p256dh: '', auth: '' }) - 1;
      const { endpoint, key, auth } = await sandbox.subscribe();
      addresses[index] = { channel: 'web-push', address: endpoint, p256dh: key, auth };
    }
  };
  await Promise.all(Array.from({ length: MAX_SUBSCRIBING }, subscribeNext));
  return insertDevices(tenant, 'web', addresses);
}

/** How a provider gets pushes: over its channel, or `fallback`: over FCM, for Android devices that go by MQTT. */
export type ProviderWay = ProviderChannelName | 'fallback';

/** Registers devices that get their pushes in a way; for FCM the app has to use it. */
export function registerFor(
  way: ProviderWay,
  tenant: TestTenant,
  sandbox: Pick<Sandbox, 'subscribe'>,
  n: number,
): Promise<ProviderDevicePool> {
  if (way === 'apns') return registerIphones(tenant, n);
  if (way === 'web-push') return registerBrowsers(tenant, sandbox, n);
  return way === 'fcm' ? registerAndroidsByFcm(tenant, n) : registerAndroids(tenant, n);
}

/** Registers straight in the database: through the API so many would take minutes. */
async function insertDevices(
  { dev }: TestTenant,
  platform: 'ios' | 'android' | 'web',
  addresses: readonly ProviderAddress[],
  way?: Way,
): Promise<ProviderDevicePool> {
  const { app } = dev;
  const now = new Date();
  // Before the first push, or no device could be found gone.
  const since = new Date(now.getTime() - 1_000);
  const documents = addresses.map((address): DeviceDocument => {
    const provider = { ...address, since };
    const _id = newDeviceToken();
    const times = { registeredAt: now, lastActiveAt: now };
    return { _id, app, platform, provider, ...(way && { way }), ...times };
  });
  const mongo = await openMongo(dev);
  await mongo.db.collection<DeviceDocument>('devices').insertMany(documents, { ordered: false });
  await mongo.close();
  return {
    tokens: documents.map(({ _id }) => _id),
    addresses: addresses.map(({ address }) => address),
  };
}

/** Subscribes phones of one platform to a topic of their own, straight in the database too. */
export async function subscribePhones(
  { dev }: TestTenant,
  topic: string,
  tokens: readonly string[],
  platform: 'ios' | 'android' = 'ios',
): Promise<void> {
  const id = `${dev.app}:${topic}`;
  const since = new Date();
  const documents = tokens.map((token): SubscriptionDocument => {
    return { _id: `${id}:${token}`, token, platform, since };
  });
  const mongo = await openMongo(dev);
  const subscriptions = mongo.db.collection<SubscriptionDocument>('subscriptions');
  await subscriptions.insertMany(documents, { ordered: false });
  const topics = mongo.db.collection<TopicDocument>('topics');
  await topics.insertOne({ _id: id, n: { [platform]: tokens.length }, v: 1 });
  await mongo.close();
}
