import { newPushId } from '@carillon/core/ids';
import { createProducers, type Producers } from '@carillon/queue/producers';
import type { BatchDocument, PushDocument } from '@carillon/store/documents';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type Db, MongoClient } from 'mongodb';
import { startRedis, type TestServer } from '../../../../packages/presence/test/start-server.ts';
import { startMongod } from '../../../../test/support/mongod-server.ts';
import { openStore, type TestStore } from '../../../../test/support/open-store.ts';
import { fanOutStep } from '../../src/fan-out/fan-out.ts';

const APP = '0123456789abcdef01234567';
const TOPIC = 'everybody';
const BATCHES = 5;
const SUBSCRIBERS = BATCHES * 1_000;

let mongod: TestServer;
let redis: Awaited<ReturnType<typeof startRedis>>;
let client: MongoClient;
let db: Db;
let store: TestStore;
let producers: Producers;
beforeAll(async () => {
  [mongod, redis] = await Promise.all([startMongod(), startRedis()]);
  const uri = `mongodb://127.0.0.1:${mongod.port}/fan-out`;
  client = await new MongoClient(uri).connect();
  db = client.db();
  store = await openStore({ uri, appName: 'test' });
  await store.migrate();
  producers = createProducers(redis, () => undefined);
  const rows = Array.from({ length: SUBSCRIBERS }, (_, index) => {
    const token = `device${index.toString().padStart(6, '0')}`;
    return { _id: `${APP}:${TOPIC}:${token}`, token, platform: 'android' };
  });
  await db.collection('subscriptions').insertMany(rows as never[]);
});
afterAll(async () => {
  await producers?.close();
  await store?.close();
  await client?.close();
  await redis?.stop();
  await mongod?.stop();
});

async function createPush(): Promise<string> {
  const _id = newPushId(Date.now());
  const fan = { at: new Date(0), seq: 0, next: 0, done: false };
  const push = { _id, app: APP, state: 'open', audience: { topics: [TOPIC], tokens: '' }, fan };
  await db.collection<PushDocument>('pushes').insertOne(push as unknown as PushDocument);
  return _id;
}

/** Runs the next step, which is due at once. @returns the number of open batches after it */
async function step(push: string, maxOpenBatches: number): Promise<number> {
  const due = { $set: { 'fan.at': new Date(0) } };
  await db.collection<PushDocument>('pushes').updateOne({ _id: push }, due);
  await fanOutStep({ store, producers, maxOpenBatches }, push);
  return batches().countDocuments({ push, 'work.state': 'ready' });
}

const batches = () => db.collection<BatchDocument>('batches');

async function closeOne(push: string): Promise<void> {
  const close = { $set: { 'work.state': 'done' } } as object;
  await batches().updateOne({ push, 'work.state': 'ready' }, close);
}

test('a push has at most the permitted open batches, and another one for each that is closed', async () => {
  const push = await createPush();
  expect(await step(push, 2)).toBe(2);
  expect(await step(push, 2)).toBe(2);
  for (let closed = 1; closed <= BATCHES - 2; closed += 1) {
    await closeOne(push);
    expect(await step(push, 2)).toBe(2);
    expect(await batches().countDocuments({ push })).toBe(2 + closed);
  }
});

test('a higher limit opens all batches at once; a lower one then opens none', async () => {
  const push = await createPush();
  expect(await step(push, 3)).toBe(3);
  expect(await step(push, 1)).toBe(3);
  expect(await step(push, BATCHES)).toBe(BATCHES);
});
