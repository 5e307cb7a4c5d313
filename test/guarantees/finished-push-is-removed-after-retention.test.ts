import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { registerDevice } from '../support/register-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

let stack: SharedStack;
let mongo: TestMongo;
beforeAll(async () => {
  stack = await useSharedStack();
  mongo = await openMongo(stack.dev);
});
afterAll(() => mongo?.close());

interface SentPush {
  id: string;
}

/** Every document that a push has, by collection. */
async function countDocumentsOf(push: string): Promise<number[]> {
  const { db } = mongo;
  return Promise.all([
    db.collection<{ _id: string }>('pushes').countDocuments({ _id: push }),
    db.collection('batches').countDocuments({ push }),
    db.collection('inbox').countDocuments({ push }),
  ]);
}

async function sendToMany(fields: object): Promise<string> {
  const { token } = await registerDevice(stack.dev);
  const { token: phone } = await registerDevice(stack.dev, 'android');
  await stack.api('POST', '/topics/subscribe', { token, topics: ['all'] });
  // A schedule and a topic make batches, whatever their size.
  const schedule = Math.floor(Date.now() / 1_000) + 2;
  const body = { to: ['/topics/all', phone], data: { n: 1 }, schedule, ...fields };
  return (await stack.api<SentPush>('POST', '/push', body)).json.id;
}

test('an expired push is kept for its outcomes, and then removed with all its documents', async () => {
  const push = await sendToMany({ time_to_live: 4 });
  await until(async () => ((await countDocumentsOf(push))[2] ?? 0) === 2, { timeoutMs: 20_000 });
  const pushes = mongo.db.collection<{ _id: string; purgeAt?: Date }>('pushes');
  const isOver = async () => (await pushes.findOne({ _id: push }))?.purgeAt !== undefined;
  await until(isOver, { timeoutMs: 20_000 });
  await until(async () => (await countDocumentsOf(push))[2] === 0, { timeoutMs: 20_000 });
  expect((await countDocumentsOf(push)).slice(0, 2)).toEqual([1, expect.any(Number)]);
  // Two days later.
  await pushes.updateOne({ _id: push }, { $set: { purgeAt: new Date() } });
  await until(async () => (await countDocumentsOf(push)).every((n) => n === 0), {
    timeoutMs: 20_000,
  });
});

test('thousands of pushes that are due at once are removed', async () => {
  const pushes = mongo.db.collection<{ _id: string; state: string; purgeAt: Date }>('pushes');
  const mayGo = { state: 'finished', purgeAt: new Date() };
  const ids = Array.from({ length: 5_000 }, (_, n) => `f${n.toString().padStart(23, '0')}`);
  await pushes.insertMany(ids.map((_id) => ({ _id, ...mayGo })));
  const left = () => pushes.countDocuments({ _id: { $in: ids } });
  await until(async () => (await left()) === 0, { timeoutMs: 30_000, everyMs: 200 });
});
