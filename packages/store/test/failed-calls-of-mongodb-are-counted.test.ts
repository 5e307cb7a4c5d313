import { processCounts } from '@carillon/core/process-counts';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type Collection, MongoClient } from 'mongodb';
import { startCuttingProxy } from '../../../test/support/cutting-proxy.ts';
import { type OwnDatabase, startDatabase } from '../../../test/support/own-database.ts';
import { countFailures } from '../src/count-failures.ts';

interface Item {
  _id: string;
}

/** A filter that MongoDB refuses. */
const INVALID = { $nope: 1 } as never;

let database: OwnDatabase;
let client: MongoClient;
let items: Collection<Item>;
beforeAll(async () => {
  database = await startDatabase();
  client = await new MongoClient(database.uri).connect();
  items = countFailures(client.db()).collection('items');
});
afterAll(async () => {
  await client?.close();
  await database?.stop();
});

async function countDuring(call: () => Promise<unknown>): Promise<number> {
  const before = processCounts.mongodbCommandFailures;
  await call().catch(() => undefined);
  return processCounts.mongodbCommandFailures - before;
}

async function iterate(): Promise<void> {
  for await (const item of items.find(INVALID)) expect(item).toBeUndefined();
}

test.each<[name: string, call: () => Promise<unknown>]>([
  ['a command of the database', () => countFailures(client.db()).command({ nope: 1 })],
  ['findOne', () => items.findOne(INVALID)],
  ['a cursor that is read as a list', () => items.find(INVALID).toArray()],
  ['a cursor that is read one by one', iterate],
  ['an aggregation', () => items.aggregate([{ $nope: 1 }]).toArray()],
  ['countDocuments', () => items.countDocuments(INVALID)],
  ['distinct', () => items.distinct('_id', INVALID)],
  ['updateMany', () => items.updateMany(INVALID, { $set: { a: 1 } as never })],
  ['findOneAndUpdate', () => items.findOneAndUpdate(INVALID, { $set: { a: 1 } as never })],
  ['deleteMany', () => items.deleteMany(INVALID)],
  ['bulkWrite', () => items.bulkWrite([{ deleteMany: { filter: INVALID } }])],
])('a failed call is counted once: %s', async (_, call) => {
  expect(await countDuring(call)).toBe(1);
});

test('calls that succeed, and a document that exists already, are not counted', async () => {
  const calls = async () => {
    await items.insertOne({ _id: 'a' });
    expect(await items.find({}).toArray()).toEqual([{ _id: 'a' }]);
    await items.insertMany([{ _id: 'a' }]);
  };
  expect(await countDuring(calls)).toBe(0);
});

test('a lost connection is counted', async () => {
  const { port, pathname } = new URL(database.uri);
  const proxy = await startCuttingProxy(Number(port));
  const uri = `mongodb://127.0.0.1:${proxy.port}${pathname}?retryWrites=false`;
  const lost = await new MongoClient(uri).connect();
  proxy.cutAtWrite(1, 'before');
  const insert = () => countFailures(lost.db()).collection<Item>('items').insertOne({ _id: 'b' });
  expect(await countDuring(insert)).toBe(1);
  await lost.close();
  await proxy.stop();
});
