import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import { createClean } from '../src/clean.ts';

let database: StoreUnderTest;
beforeAll(async () => {
  database = await startStore();
});
afterAll(async () => {
  await database?.stop();
});

test('a tick whose recount fails has cleared deleted devices and full inboxes before', async () => {
  const { store, db } = database;
  const devices = db.collection<{ _id: string }>('devices');
  const fullInboxes = db.collection<{ _id: string }>('full');
  await devices.insertOne({ _id: 'gone', ...{ app: 'app', deletedAt: new Date(), leaving: true } });
  await fullInboxes.insertOne({ _id: 'empty' });
  const timeout = new Error('the count took too long');
  const topics = { ...store.topics, recountInterrupted: () => Promise.reject(timeout) };
  const producers = { checkCompletion: async () => undefined } as never;
  await expect(createClean({ ...store, topics }, producers)()).rejects.toBe(timeout);
  expect(await devices.findOne({ _id: 'gone' })).not.toHaveProperty('leaving');
  expect(await fullInboxes.countDocuments()).toBe(0);
});
