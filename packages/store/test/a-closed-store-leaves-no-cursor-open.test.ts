import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { MongoClient } from 'mongodb';
import { startMongod } from '../../../test/support/mongod-server.ts';
import { countFailures } from '../src/count-failures.ts';
import { replaceActiveSets } from '../src/driver-state.ts';

const CURSORS = 5;

let mongod: Awaited<ReturnType<typeof startMongod>>;
let observer: MongoClient;
beforeAll(async () => {
  mongod = await startMongod();
  observer = await connect();
  await observer
    .db()
    .collection('items')
    .insertMany(Array.from({ length: 10 }, (_, n) => ({ n })));
});
afterAll(async () => {
  await observer?.close();
  await mongod?.stop();
});

function connect(): Promise<MongoClient> {
  return new MongoClient(`mongodb://127.0.0.1:${mongod.port}/test`).connect();
}

async function countOpenCursors(): Promise<number> {
  const { metrics } = await observer.db().command({ serverStatus: 1 });
  return Number(metrics.cursor.open.total);
}

test('cursors that are open when the client is closed are closed', async () => {
  const client = await connect();
  replaceActiveSets(client);
  const items = client.db().collection('items');
  const cursors = Array.from({ length: CURSORS }, () => items.find({}, { batchSize: 2 }));
  for (const cursor of cursors) expect(await cursor.next()).not.toBeNull();
  expect(await countOpenCursors()).toBe(CURSORS);
  await cursors[1]?.close();
  expect(await countOpenCursors()).toBe(CURSORS - 1);
  expect(await items.find({}).toArray()).toHaveLength(10);

  await client.close();

  expect(await countOpenCursors()).toBe(0);
});

test('a session that has ended is no longer tracked', async () => {
  const client = await connect();
  replaceActiveSets(client);
  await client.withSession(async (session) => {
    expect(await client.db().collection('items').countDocuments({}, { session })).toBe(10);
  });
  const sessions = Reflect.get(Reflect.get(client, 's') as object, 'activeSessions');
  expect([...(sessions as Iterable<unknown>)]).toEqual([]);
  await client.close();
});

test('all cursors share the function that counts their failures', () => {
  const items = countFailures(observer.db()).collection('items');
  const fetch = Reflect.get(items.find({}), 'fetchBatch');
  expect(typeof fetch).toBe('function');
  expect(Reflect.get(items.find({}), 'fetchBatch')).toBe(fetch);
});
