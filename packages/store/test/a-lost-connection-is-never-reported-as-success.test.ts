import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Binary, MongoClient } from 'mongodb';
import {
  type CutPoint,
  type CuttingProxy,
  startCuttingProxy,
} from '../../../test/support/cutting-proxy.ts';
import { startMongod } from '../../../test/support/mongod-server.ts';
import { openStore, type TestStore } from '../../../test/support/open-store.ts';
import type { TestServer } from '../../presence/test/start-server.ts';
import { migrate } from '../src/schema.ts';
import { CONSOLE_WRITE_CASES } from './console-write-cases.ts';
import { FAILURE_READ_CASES, FAILURE_WRITE_CASES } from './failure-cases.ts';
import { PUSH_WRITE_CASES } from './push-write-cases.ts';
import { READ_CASES, UNCALLED } from './read-cases.ts';
import { type Case, REGISTRATION_WRITE_CASES } from './registration-write-cases.ts';
import { WEBHOOK_WRITE_CASES } from './webhook-write-cases.ts';

const WRITE_CASES = {
  ...REGISTRATION_WRITE_CASES,
  ...PUSH_WRITE_CASES,
  ...FAILURE_WRITE_CASES,
  ...CONSOLE_WRITE_CASES,
  ...WEBHOOK_WRITE_CASES,
};
const ALL_READ_CASES = { ...READ_CASES, ...FAILURE_READ_CASES };
const CUT_POINTS: readonly CutPoint[] = ['before', 'in the middle', 'after'];

/** A database with the whole schema: some reads use an index by a hint. */
const READ_DATABASE = 'reads';

let mongod: TestServer;
let direct: MongoClient;
let databases = 0;
/** Names of empty databases: MongoDB takes longer to create one than to run a case. */
const emptyDatabases: string[] = [];
beforeAll(async () => {
  mongod = await startMongod();
  direct = await new MongoClient(`mongodb://127.0.0.1:${mongod.port}/`).connect();
  await migrate(direct.db(READ_DATABASE));
});
afterAll(async () => {
  await direct?.close();
  await mongod?.stop();
});

/** Result of a call of the store, and the content of the database after it. */
interface RunResult {
  error: unknown;
  writes: number;
  hasCut: boolean;
  database: string;
}

/** Runs a case on an empty database, with or without a cut of the connection. */
async function runOnEmpty(one: Case, cut?: { n: number; point: CutPoint }): Promise<RunResult> {
  databases += 1;
  const name = emptyDatabases.pop() ?? `case${databases}`;
  const result = await run(one, name, cut);
  await clearDatabase(name);
  return result;
}

async function run(
  { given, call }: Case,
  name: string,
  cut?: { n: number; point: CutPoint },
): Promise<RunResult> {
  await given?.(direct.db(name));
  const proxy = await startCuttingProxy(mongod.port);
  const store = await openThrough(proxy, name);
  try {
    proxy.cutAtWrite(cut?.n ?? 0, cut?.point ?? 'before');
    const error = await Promise.resolve(store)
      .then(call)
      .then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
    const { writes, hasCut } = { writes: proxy.writes(), hasCut: proxy.isCutDone() };
    return { error, writes, hasCut, database: await readDatabase(name) };
  } finally {
    await store.close();
    await proxy.stop();
  }
}

/** Connects a store that does not wait half a second before it reconnects. */
function openThrough({ port }: CuttingProxy, name: string): Promise<TestStore> {
  const uri = `mongodb://127.0.0.1:${port}/${name}?minHeartbeatFrequencyMS=20`;
  return openStore({ uri, appName: 'test', timeoutMs: 2_500 });
}

/**
 * Reads all documents of a database as text, with sorted fields and with times and random ids replaced by their type,
 * and the number of indexes of each collection that has more than the index of its ids.
 */
async function readDatabase(name: string): Promise<string> {
  const names = await readNames(name);
  const fromEach = names.map((coll) => {
    const project = { _id: 0, place: { $literal: `in ${coll}` }, document: '$$ROOT' };
    return { $unionWith: { coll, pipeline: [{ $project: project }] } };
  });
  const documents = await direct
    .db(name)
    .aggregate([{ $documents: [] }, ...fromEach])
    .toArray();
  return JSON.stringify([documents.map(comparable).sort(), await readIndexCounts(name)]);
}

async function readNames(name: string): Promise<string[]> {
  const collections = await direct.db(name).listCollections({}, { nameOnly: true }).toArray();
  return collections.map((one) => one.name).sort();
}

async function readIndexCounts(name: string): Promise<[collection: string, count: number][]> {
  const db = direct.db(name);
  const { collections, indexes } = await db.stats();
  if (indexes === collections) return [];
  const counts = (await readNames(name)).map(async (one): Promise<[string, number]> => {
    return [one, (await db.collection(one).listIndexes().toArray()).length];
  });
  return (await Promise.all(counts)).filter(([, count]) => count > 1);
}

/** Empties a database for another case, unless a case has created indexes in it. */
async function clearDatabase(name: string): Promise<void> {
  if ((await readIndexCounts(name)).length > 0) return;
  const collections = (await readNames(name)).map((one) => direct.db(name).collection(one));
  await Promise.all(collections.map((collection) => collection.deleteMany()));
  emptyDatabases.push(name);
}

const RANDOM_ID = /^([0-9a-f]{22}|[0-9a-f]{24}|[\w-]{12})$/;

function comparable(document: object): string {
  return JSON.stringify(document, function (this: Record<string, unknown>, key, value) {
    const fieldValue = this[key];
    if (fieldValue instanceof Date) return 'time';
    if (fieldValue instanceof Binary) return fieldValue.toString('hex');
    // Statements for one document and for many set the same fields in another order.
    if (Object.getPrototypeOf(Object(fieldValue)) === Object.prototype) {
      return Object.fromEntries(
        Object.entries(fieldValue as object).sort(([a], [b]) => (a < b ? -1 : 1)),
      );
    }
    return typeof value === 'string' && RANDOM_ID.test(value) ? 'id' : value;
  });
}

/** The cases by the name of their function, with the name of the case if there are several. */
const CASES = Object.entries(WRITE_CASES).flatMap(([name, cases]) =>
  'call' in cases
    ? [[name, cases as Case] as const]
    : Object.entries(cases).map(([variant, one]) => [`${name} ${variant}`, one] as const),
);

test('every function of the store has a case here', async () => {
  const proxy = await startCuttingProxy(mongod.port);
  const { db, ...store } = await openThrough(proxy, 'names');
  const functions = Object.entries(store).flatMap(([name, part]) =>
    typeof part === 'function'
      ? [name]
      : Object.keys(part).map((functionName) => `${name}.${functionName}`),
  );
  await store.close();
  await proxy.stop();
  const namesWithCases = [...Object.keys(ALL_READ_CASES), ...Object.keys(WRITE_CASES), ...UNCALLED];
  expect(namesWithCases.sort()).toEqual(functions.sort());
});

test.each(Object.entries(ALL_READ_CASES))('%s writes nothing', async (_name, call) => {
  const { error, writes } = await run({ call }, READ_DATABASE);
  expect({ error, writes }).toEqual({ error: undefined, writes: 0 });
});

describe('a call succeeds only if all of its writes took effect:', () => {
  test.each(CASES)('%s', async (_name, one) => {
    const uncut = await runOnEmpty(one);
    expect(uncut.error).toBeUndefined();
    expect(uncut.writes).toBeGreaterThan(0);
    const cuts = Array.from({ length: uncut.writes }, (_, index) => index + 1).flatMap((n) =>
      CUT_POINTS.map((point) => ({ n, point })),
    );
    const runs = await Promise.all(
      cuts.map(async (cut) => ({ ...cut, ...(await runOnEmpty(one, cut)) })),
    );
    expect(runs.filter(({ n }) => n === 1).map(({ hasCut }) => hasCut)).not.toContain(false);
    const falseSuccesses = runs.filter(
      (ended) => ended.error === undefined && ended.database !== uncut.database,
    );
    expect(falseSuccesses.map(({ n, point, database }) => ({ n, point, database }))).toEqual([]);
  });
});
