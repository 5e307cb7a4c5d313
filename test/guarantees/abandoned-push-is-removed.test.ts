import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { newPushId } from '../../packages/core/src/ids.ts';
import { createBatchDocument } from '../../packages/store/src/create-batches.ts';
import type { BatchDocument, PushDocument } from '../../packages/store/src/documents.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { openStore, type TestStore } from '../support/open-store.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const HOUR_MS = 3_600_000;

let stack: SharedStack;
/** The stack's own database, with its scheduler and worker. */
let liveMongo: TestMongo;
/** A database of the test's own. */
let mongo: TestMongo;
let store: TestStore;
beforeAll(async () => {
  stack = await useSharedStack();
  liveMongo = await openMongo(stack.dev);
  const mongodb = stack.dev.mongodb.replace('/carillon', '/accepting');
  mongo = await openMongo({ mongodb });
  store = await openStore({ uri: mongodb, appName: 'test' });
  await store.migrate();
});
afterAll(async () => {
  await store?.close();
  await mongo?.close();
  await liveMongo?.close();
});

const pushes = () => mongo.db.collection<PushDocument>('pushes');

function acceptingPush(fields: Partial<PushDocument>): PushDocument {
  const acceptedAt = new Date(Date.now() - HOUR_MS);
  const end = new Date(Date.now() + HOUR_MS);
  const times = { acceptedAt, expiresAt: end, sendUntil: end };
  const fan = { seq: 0, next: 0, done: false };
  const _id = newPushId(Date.now());
  return { _id, app: 'app', state: 'accepting', ...times, data: '{}', devices: 1, fan, ...fields };
}

async function insertPush(fields: Partial<PushDocument>): Promise<string> {
  const { insertedId } = await pushes().insertOne(acceptingPush(fields));
  return insertedId;
}

const stateOf = async (_id: string) => (await pushes().findOne({ _id }))?.state;

const fromNow = (ms: number) => new Date(Date.now() + ms);

test('an attempt of any age is not abandoned while its owner renews it', async () => {
  const alive = await insertPush({ acceptingUntil: fromNow(60_000) });
  const lapsed = await insertPush({ acceptingUntil: fromNow(-1_000) });
  const young = await insertPush({ acceptedAt: new Date(), acceptingUntil: fromNow(-1_000) });
  expect(await store.retention.abandonStale()).toBe(1);
  const states = await Promise.all([alive, lapsed, young].map(stateOf));
  expect(states).toEqual(['accepting', 'abandoned', 'accepting']);
});

test('a renewal lasts some seconds, and an abandoned attempt can neither be renewed nor committed', async () => {
  const idempotency = { key: 'a', bodyHash: '' };
  const id = await insertPush({ acceptingUntil: fromNow(-1_000), idempotency });
  expect(await store.pushes.renewAcceptingLease(id)).toBe(true);
  expect((await store.pushes.findByIdempotencyKey('app', 'a'))?._id).toBe(id);
  await until(async () => (await store.pushes.findByIdempotencyKey('app', 'a')) === undefined);
  expect(await store.pushes.renewAcceptingLease(id)).toBe(false);
  expect(await store.pushes.commit(id, 'open')).toBe(false);
  expect(await stateOf(id)).toBe('abandoned');
});

test('batches without their push are removed, whether they wait or are due, and others stay', async () => {
  const batches = liveMongo.db.collection<BatchDocument>('batches');
  const app = stack.dev.app;
  const livePush = acceptingPush({ app, acceptingUntil: fromNow(HOUR_MS) });
  await liveMongo.db.collection<PushDocument>('pushes').insertOne(livePush);
  const batch = (push: string, state: 'waiting' | 'ready') =>
    createBatchDocument({ _id: push, app }, 'mqtt', ['one', 'two'], 0, state, new Date(0));
  const [waiting, ready] = [newPushId(Date.now()), newPushId(Date.now())];
  await batches.insertMany([
    batch(waiting, 'waiting'),
    batch(ready, 'ready'),
    batch(livePush._id, 'waiting'),
  ]);
  const left = () => batches.distinct('push', { push: { $in: [waiting, ready, livePush._id] } });
  await until(async () => (await left()).length === 1, { timeoutMs: 20_000 });
  expect(await left()).toEqual([livePush._id]);
});
