import { newObjectId, newPushId } from '@carillon/core/ids';
import { parseSealingKeys, seal } from '@carillon/core/sealing';
import { parsePushHosts } from '@carillon/core/web-push-endpoint';
import { createEmbeddedBatch } from '@carillon/store/create-batches';
import { credentialId } from '@carillon/store/credentials';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { DeviceDocument } from '../../../../packages/store/src/documents.ts';
import { profile } from '../../../../packages/store/test/store-under-test.ts';
import { useStore } from '../../../../packages/store/test/use-store.ts';
import { createWebPush } from '../../src/channels/web-push/client.ts';
import { createAcceptedRecorder } from '../../src/deliver/accepted-devices.ts';
import type { Delivery } from '../../src/deliver/channel.ts';
import { createDeliverByProvider } from '../../src/deliver/deliver-by-provider.ts';
import { createProviderClientPool } from '../../src/deliver/provider-clients.ts';
import { createBrowser, createSecret } from './browser.ts';
import { createHandler, type PushService, startPushService } from './push-service.ts';

const KEYS = parseSealingKeys(`1:${'ab'.repeat(32)}`);
const HOUR_MS = 3_600_000;
/** Pending recipients of which the last outcome makes a save due. */
const RECIPIENTS = 30;

const under = useStore();
const { store } = under;
const browser = createBrowser();
let service: PushService;
let app: string;
beforeAll(async () => {
  service = await startPushService();
  service.respondWith(createHandler(201));
  app = await store.apps.create('Test', newObjectId());
  await store.apps.updateSettings(app, { pruneAfterDays: 90 });
  const key = { app, channel: 'web-push' as const };
  const secret = seal(KEYS, credentialId(key), JSON.stringify(createSecret()));
  await store.credentials.put(key, secret, {});
});
afterAll(() => service?.stop());

const devices = () => under.db.collection<DeviceDocument>('devices');
const seenSince = (ms: number) =>
  devices().countDocuments({ app, lastActiveAt: { $gte: new Date(Date.now() - ms) } });

/** Registers browsers that were last seen some hours ago. */
async function registerSeen(hoursAgo: number, count = 1): Promise<string[]> {
  const tokens: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const { since: _, ...address } = browser.address(`https://${service.host}/${newObjectId()}`);
    tokens.push((await store.devices.register(app, 'web', address)).token);
  }
  await setSeen(tokens, hoursAgo);
  return tokens;
}

async function setSeen(tokens: string[], hoursAgo: number): Promise<void> {
  const lastActiveAt = new Date(Date.now() - hoursAgo * HOUR_MS);
  await devices().updateMany({ _id: { $in: tokens } }, { $set: { lastActiveAt } });
}

function createDelivery(tokens: string[], save: () => Promise<void>): Delivery {
  const at = new Date();
  const later = new Date(Date.now() + 60_000);
  const pending = new Set(tokens.keys());
  return {
    push: {
      ...{ _id: newPushId(Date.now()), app, state: 'open', acceptedAt: at, data: '{}' },
      ...{ expiresAt: later, sendUntil: later },
    },
    batch: { id: 'batch', work: createEmbeddedBatch('web-push', tokens, 'ready', at).work },
    ...{ span: undefined, tokens, pending, inFlight: new Set<number>(), save },
    maySend: async () => true,
    maySendNow: () => true,
    recordOutcome: (position: number) => pending.delete(position),
  } as unknown as Delivery;
}

function createDeliver(accepted = createAcceptedRecorder(store, () => undefined)) {
  const channel = createWebPush({
    ...{ hosts: parsePushHosts([service.host]), ca: service.ca },
    isPublic: () => true,
  });
  const clientPool = createProviderClientPool({
    ...{ name: 'web-push', loadChannel: async () => channel, keys: KEYS },
    ...{ credentials: store.credentials, onError: () => undefined },
  });
  const deliver = createDeliverByProvider({
    ...{ name: 'web-push', clientPool, window: 1, store, report: () => undefined, accepted },
    getAppSettings: () => Promise.reject(new Error('browsers need none')),
  });
  return { deliver, close: clientPool.close };
}

test('acceptances are recorded before the outcomes are saved, and before the batch is settled', async () => {
  const tokens = await registerSeen(25, RECIPIENTS);
  const { deliver, close } = createDeliver();
  const recordedAtSave: number[] = [];
  const save = async () => {
    recordedAtSave.push(await seenSince(HOUR_MS));
  };
  await deliver(createDelivery(tokens, save));
  expect(recordedAtSave[0]).toBeGreaterThanOrEqual(25);
  expect(await seenSince(HOUR_MS)).toBe(RECIPIENTS);
  await close();
});

test('the stored time is never older than an acceptance by more than a day', async () => {
  const { deliver, close } = createDeliver();
  const [token = ''] = await registerSeen(23.9);
  const send = () => deliver(createDelivery([token], async () => undefined));
  expect(await profile(under, send, { op: 'update' })).toEqual([]);
  await setSeen([token], 24.1);
  await send();
  const device = await devices().findOne({ _id: token });
  expect(device?.lastActiveAt.getTime()).toBeGreaterThan(Date.now() - HOUR_MS);
  await close();
});

test('what could not be written is written with what follows, or at the stop', async () => {
  let isFailing = true;
  const errors: unknown[] = [];
  const markSeen = (token: string) =>
    isFailing ? Promise.reject(new Error('fails')) : store.devices.markSeen(token);
  const devicesOfWorker = { ...store.devices, markSeen };
  const recorder = createAcceptedRecorder({ ...store, devices: devicesOfWorker }, (error) =>
    errors.push(error),
  );
  const tokens = await registerSeen(25, 2);
  for (const token of tokens) {
    recorder.record(app, { token, lastActiveAt: new Date(0) });
    await recorder.flush();
  }
  expect(errors).toHaveLength(2);
  isFailing = false;
  await recorder.stop();
  const seen = await devices()
    .find({ _id: { $in: tokens } })
    .toArray();
  for (const { lastActiveAt } of seen)
    expect(lastActiveAt.getTime()).toBeGreaterThan(Date.now() - HOUR_MS);
});
