import { randomBytes } from 'node:crypto';
import type { ProviderAddress, ProviderChannelName } from '../../../packages/core/src/channels.ts';
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

/** Android devices that FCM reaches, and that never connect over MQTT. */
export function registerAndroids(tenant: TestTenant, n: number): Promise<ProviderDevicePool> {
  const addresses = Array.from({ length: n }, (): ProviderAddress => {
    return { channel: 'fcm', address: `fcm-${randomBytes(20).toString('hex')}` };
  });
  return insertDevices(tenant, 'android', addresses);
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

/** Registers devices that the provider of a channel reaches; for FCM the app needs a delay of the fallback. */
export function registerFor(
  channel: ProviderChannelName,
  tenant: TestTenant,
  sandbox: Pick<Sandbox, 'subscribe'>,
  n: number,
): Promise<ProviderDevicePool> {
  if (channel === 'apns') return registerIphones(tenant, n);
  return channel === 'fcm' ? registerAndroids(tenant, n) : registerBrowsers(tenant, sandbox, n);
}

/** Registers straight in the database: through the API so many would take minutes. */
async function insertDevices(
  { dev }: TestTenant,
  platform: 'ios' | 'android' | 'web',
  addresses: readonly ProviderAddress[],
): Promise<ProviderDevicePool> {
  const { app } = dev;
  const now = new Date();
  // Before the first push, or no device could be found gone.
  const since = new Date(now.getTime() - 1_000);
  const documents = addresses.map((address): DeviceDocument => {
    const provider = { ...address, since };
    const _id = newDeviceToken();
    return { _id, app, platform, provider, registeredAt: now, lastActiveAt: now };
  });
  const mongo = await openMongo(dev);
  await mongo.db.collection<DeviceDocument>('devices').insertMany(documents, { ordered: false });
  await mongo.close();
  return {
    tokens: documents.map(({ _id }) => _id),
    addresses: addresses.map(({ address }) => address),
  };
}

/** Subscribes iPhones to a topic of their own, straight in the database too. */
export async function subscribeIphones(
  { dev }: TestTenant,
  topic: string,
  tokens: readonly string[],
): Promise<void> {
  const id = `${dev.app}:${topic}`;
  const since = new Date();
  const documents = tokens.map((token): SubscriptionDocument => {
    return { _id: `${id}:${token}`, token, platform: 'ios', since };
  });
  const mongo = await openMongo(dev);
  const subscriptions = mongo.db.collection<SubscriptionDocument>('subscriptions');
  await subscriptions.insertMany(documents, { ordered: false });
  const topics = mongo.db.collection<TopicDocument>('topics');
  await topics.insertOne({ _id: id, n: { ios: tokens.length }, v: 1 });
  await mongo.close();
}
