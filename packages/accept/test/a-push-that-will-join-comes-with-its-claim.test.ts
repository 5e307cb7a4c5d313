import { INITIAL_LEASE_MS } from '@carillon/core/batch';
import { decodeEntry } from '@carillon/queue/joined-push';
import { createProducers, type Producers } from '@carillon/queue/producers';
import type { PushDocument } from '@carillon/store/documents';
import { connectStore, type Store } from '@carillon/store/store';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { MongoClient } from 'mongodb';
import { type OwnDatabase, startDatabase } from '../../../test/support/own-database.ts';
import { until } from '../../../test/support/until.ts';
import { connectRedis, type Redis } from '../../presence/src/redis.ts';
import { startRedis } from '../../presence/test/start-server.ts';
import { acceptPush } from '../src/accept-push.ts';
import { parsePush } from '../src/parse-push.ts';

const APP = 'a'.repeat(24);
const OPEN_KEY = 'send:joinable';
const ENTRIES_KEY = 'send:joined';

let server: Awaited<ReturnType<typeof startRedis>>;
let redis: Redis;
let database: OwnDatabase;
let client: MongoClient;
let store: Store;
let producers: Producers;
let tokens: string[];
let browser: string;
beforeAll(async () => {
  [database, server] = await Promise.all([startDatabase(), startRedis()]);
  redis = await connectRedis(server);
  client = await new MongoClient(database.uri).connect();
  store = await connectStore({ uri: database.uri, appName: 'test' });
  await store.migrate();
  producers = createProducers(server, () => undefined);
  const register = async (platform: 'android' | 'web') =>
    (await store.devices.register(APP, platform)).token;
  tokens = [await register('android'), await register('android')];
  browser = await register('web');
});
afterAll(async () => {
  await producers?.close();
  await store?.close();
  await client?.close();
  redis?.disconnect();
  await server?.stop();
  await database?.stop();
});

/** Makes pushes join: a job is open, and a push has joined it just now. */
beforeEach(async () => {
  await redis.del(ENTRIES_KEY);
  await until(async () => {
    await redis.set(OPEN_KEY, 1);
    await producers.sendEmbedded('joins');
    return producers.hasOpenJob();
  });
  await redis.del(ENTRIES_KEY);
});

async function send(value: Record<string, unknown>): Promise<PushDocument> {
  const full = { to: tokens[0], data: { n: 1 }, ...value };
  const body = { value: full, text: JSON.stringify(full) };
  const { id } = await acceptPush(store, producers, APP, parsePush(body, {}, store.clock.now()));
  return read(id);
}

async function read(_id: string): Promise<PushDocument> {
  const found = await client.db().collection<PushDocument>('pushes').findOne({ _id });
  if (found === null) throw new Error(`${_id} is not stored`);
  return found;
}

const listJoined = async () => (await redis.lrange(ENTRIES_KEY, 0, -1)).flatMap(decodeEntry);

test('a push to one device is stored with a claim and joins with all that its delivery needs', async () => {
  const push = await send({ data: { text: 'grüße\n' }, collapse_key: 'k' });
  const { acceptedAt, work } = push;
  expect(work).toMatchObject({ state: 'ready', tries: 1, claim: expect.any(String) });
  expect(work?.reply).toBeUndefined();
  expect(work?.at.getTime()).toBe(acceptedAt.getTime() + INITIAL_LEASE_MS);
  const [joined] = await until(async () => (await listJoined()).length === 1 && listJoined());
  expect(joined).toEqual({
    id: push._id,
    contents: {
      ...{ claim: work?.claim, app: APP, token: tokens[0], data: push.data },
      acceptedAt: acceptedAt.getTime(),
      expiresAt: push.expiresAt.getTime(),
      sendUntil: push.sendUntil.getTime(),
      ...{ options: push.options, collapse: push.collapse },
    },
  });
});

test.each<[string, () => Record<string, unknown>]>([
  ['to two devices', () => ({ to: tokens })],
  ['over a provider', () => ({ to: browser })],
  ['with a time to live of 0', () => ({ time_to_live: 0 })],
  ['that expires before the lease would end', () => ({ time_to_live: INITIAL_LEASE_MS / 1_000 })],
  ['that is scheduled', () => ({ schedule: Math.ceil(Date.now() / 1_000) + 60 })],
])('a push %s is stored without a claim', async (_what, value) => {
  const { work, fan } = await send(value());
  expect(work?.claim).toBeUndefined();
  expect(work?.tries ?? 0).toBe(0);
  expect(fan.done).toBe(true);
});

test('without pushes that join, a push is stored without a claim', async () => {
  const joinedAt = performance.now();
  await until(() => performance.now() - joinedAt > 500);
  expect((await send({})).work?.claim).toBeUndefined();
});

test('when the job has just been closed, the claim is released and the push gets a job', async () => {
  await redis.del(OPEN_KEY);
  const { _id, work } = await send({});
  expect(work?.claim).toBeDefined();
  await until(async () => (await redis.exists(`bull:send:send-${_id}-0`)) === 1);
  expect((await read(_id)).work).not.toHaveProperty('claim');
  expect(await store.batchTable.claim(_id, 'r:any', 1_000)).toBeDefined();
  expect(producers.hasOpenJob()).toBe(false);
});
