import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { newPushId } from '../../packages/core/src/ids.ts';
import { createBatchDocument } from '../../packages/store/src/create-batches.ts';
import type { BatchDocument, PushDocument } from '../../packages/store/src/documents.ts';
import { untilOutcomes } from '../support/faults/pushes.ts';
import { expireNow, makeDue, sendTomorrow } from '../support/guarantees/schedule.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { openStore, type TestStore } from '../support/open-store.ts';
import { registerDevice } from '../support/register-device.ts';
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
  await until(async () => (await left()).length === 1);
  expect(await left()).toEqual([livePush._id]);
});

/** Every document that a push has, by collection. */
async function countDocumentsOf(push: string): Promise<number[]> {
  const { db } = liveMongo;
  return Promise.all([
    db.collection<{ _id: string }>('pushes').countDocuments({ _id: push }),
    db.collection('batches').countDocuments({ push }),
    db.collection('inbox').countDocuments({ push }),
  ]);
}

test('an expired push is kept for its outcomes, and then removed with all its documents', async () => {
  const devices = [await registerDevice(stack.dev), await registerDevice(stack.dev, 'android')];
  const tokens = devices.map(({ token }) => token);
  await stack.api('POST', '/topics/subscribe', { token: tokens[0], topics: ['all'] });
  // A schedule and a topic make batches, whatever their size.
  const push = await sendTomorrow(stack, ['/topics/all', tokens[1] ?? '']);
  await makeDue(liveMongo, [push]);
  await untilOutcomes(liveMongo, push, { inbox: 2 });
  await expireNow(liveMongo, push);
  const livePushes = liveMongo.db.collection<PushDocument>('pushes');
  const isOver = async () => (await livePushes.findOne({ _id: push.id }))?.purgeAt !== undefined;
  await until(isOver);
  await until(async () => (await countDocumentsOf(push.id))[2] === 0);
  expect((await countDocumentsOf(push.id)).slice(0, 2)).toEqual([1, expect.any(Number)]);
  // Two days later.
  await livePushes.updateOne({ _id: push.id }, { $set: { purgeAt: new Date() } });
  await until(async () => (await countDocumentsOf(push.id)).every((n) => n === 0));
});

test('thousands of pushes that are due at once are removed', async () => {
  const livePushes = liveMongo.db.collection<{ _id: string; state: string; purgeAt: Date }>(
    'pushes',
  );
  const mayGo = { state: 'finished', purgeAt: new Date() };
  const ids = Array.from({ length: 5_000 }, (_, n) => `f${n.toString().padStart(23, '0')}`);
  await livePushes.insertMany(ids.map((_id) => ({ _id, ...mayGo })));
  const left = () => livePushes.countDocuments({ _id: { $in: ids } });
  await until(async () => (await left()) === 0, { everyMs: 200 });
});
