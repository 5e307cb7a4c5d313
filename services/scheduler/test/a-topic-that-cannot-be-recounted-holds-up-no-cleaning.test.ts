import { createProducers, type Producers } from '@carillon/queue/producers';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import { createClean } from '../src/clean.ts';

const HOUR_MS = 3_600_000;

let database: StoreUnderTest;
let redis: Awaited<ReturnType<typeof startRedis>>;
let producers: Producers;
beforeAll(async () => {
  [database, redis] = await Promise.all([startStore(), startRedis()]);
  producers = createProducers(redis, () => undefined);
});
afterAll(async () => {
  await producers?.close();
  await redis?.stop();
  await database?.stop();
});

/** Stores an import of subscriptions that was interrupted an hour ago, and makes all writes of topics fail. */
async function failRecounts(): Promise<void> {
  const { store, db } = database;
  await db.createCollection('topics', { validator: { never: { $exists: true } } });
  const importing = store.imports.importSubscriptions('app', [
    { topic: 'news', token: 'device', platform: 'android', since: new Date(0) },
  ]);
  await expect(importing).rejects.toThrow();
  const hourAgo = new Date(Date.now() - HOUR_MS);
  await db.collection('subscriptions').updateMany({}, { $set: { since: hourAgo } });
}

test('a tick clears deleted devices and full inboxes before its recount fails', async () => {
  const { store, db } = database;
  const devices = db.collection<{ _id: string }>('devices');
  const fullInboxes = db.collection<{ _id: string }>('full');
  await devices.insertOne({ _id: 'gone', ...{ app: 'app', deletedAt: new Date(), leaving: true } });
  await fullInboxes.insertOne({ _id: 'empty' });
  await failRecounts();
  await expect(createClean(store, store, producers)()).rejects.toThrow(/validation/);
  expect(await devices.findOne({ _id: 'gone' })).not.toHaveProperty('leaving');
  expect(await fullInboxes.countDocuments()).toBe(0);
});
