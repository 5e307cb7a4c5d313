import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Binary, MongoClient } from 'mongodb';
import {
  type CutPoint,
  type CuttingProxy,
  startCuttingProxy,
} from '../../../test/support/cutting-proxy.ts';
import { measureLag } from '../../../test/support/lag.ts';
import { startMongod } from '../../../test/support/mongod-server.ts';
import { openStore, type TestStore } from '../../../test/support/open-store.ts';
import { until } from '../../../test/support/until.ts';
import type { TestServer } from '../../presence/test/start-server.ts';
import { migrate } from '../src/schema.ts';
import { connectStore } from '../src/store.ts';
import { ALL_WRITES, listCases } from './all-cases.ts';
import type { Case } from './document-fixtures.ts';
import { READ_CASES, UNCALLED } from './read-cases.ts';

/** Cases that send each command, of which half a statement arrives too. */
const IN_HALVES = [
  ...['pushes.insert one call', 'accounts.limit', 'keys.revoke', 'batchTable.claim one call'],
  'migrate',
];

/** Runs of a case at once: with all of a migration, a statement would take longer than the store waits for it. */
const RUNS_AT_ONCE = 8;

let mongod: TestServer;
let direct: MongoClient;
beforeAll(async () => {
  mongod = await startMongod();
  direct = await new MongoClient(`mongodb://127.0.0.1:${mongod.port}/`).connect();
});
afterAll(async () => {
  await Promise.all(idle.map(closePlace));
  await direct?.close();
  await mongod?.stop();
});

/** A database, and a store whose connection to it can be cut. */
interface Place {
  name: string;
  proxy: CuttingProxy;
  store: TestStore;
}

let places = 0;
/** Places whose database is empty: MongoDB takes longer to create one than to run a case. */
const idle: Place[] = [];

async function openPlace(): Promise<Place> {
  places += 1;
  const [name, proxy] = [`place${places}`, await startCuttingProxy(mongod.port)];
  // It does not wait half a second before it reconnects, and repeats no read, as an API process.
  const uri = `mongodb://127.0.0.1:${proxy.port}/${name}?minHeartbeatFrequencyMS=20`;
  const timeouts = { timeoutMs: 3_000, checkoutMs: 30_000, connectMs: 30_000 };
  return { name, proxy, store: await openStore({ uri, appName: 'test', ...timeouts }) };
}

async function closePlace({ proxy, store }: Place): Promise<void> {
  await store.close();
  await proxy.stop();
}

/** Result of a call of the store, and the content of the database after it. */
interface RunResult {
  error: unknown;
  writes: number;
  hasCut: boolean;
  database: string;
}

/** Runs a case on an empty database, with or without a cut of the connection. */
async function run({ given, call }: Case, n = 0, point: CutPoint = 'before'): Promise<RunResult> {
  const place = idle.pop() ?? (await openPlace());
  const { name, proxy, store } = place;
  await given(direct.db(name));
  proxy.cutAtWrite(n, point);
  const error = await Promise.resolve(store)
    .then(call)
    .then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
  const result = { error, writes: proxy.writes(), hasCut: proxy.isCutDone() };
  const database = await readDatabase(name);
  await leave(place);
  return { ...result, database };
}

/** Empties a database for another case, unless a case has created indexes in it. */
async function leave(place: Place): Promise<void> {
  const db = direct.db(place.name);
  if ((await readIndexCounts(place.name)).length > 0) return closePlace(place);
  const names = await readNames(place.name);
  await Promise.all(names.map((one) => db.collection(one).deleteMany()));
  // What the store has read is empty too, and it is connected again.
  await until(() => place.store.knownWebhooks.refresh().then(() => true));
  await place.store.suspensions.refresh();
  idle.push(place);
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

test('every function of the store has a case here', async () => {
  const place = await openPlace();
  const { db, ...store } = place.store;
  const functions = Object.entries(store).flatMap(([name, part]) =>
    typeof part === 'function'
      ? [name]
      : Object.keys(part).map((functionName) => `${name}.${functionName}`),
  );
  await closePlace(place);
  const namesWithCases = [...Object.keys(READ_CASES), ...Object.keys(ALL_WRITES), ...UNCALLED];
  expect(namesWithCases.sort()).toEqual(functions.sort());
});

test('connecting to a server that is not there fails after two seconds', async () => {
  const [startedAt, lag] = [performance.now(), measureLag()];
  const connecting = connectStore({ uri: 'mongodb://127.0.0.1:1/none', appName: 'test' });
  await expect(connecting).rejects.toThrow('ECONNREFUSED');
  expect(performance.now() - startedAt - 3 * lag.stop()).toBeLessThan(3_000);
});

test('functions that read write nothing', async () => {
  const place = await openPlace();
  // With the whole schema: some reads use an index by a hint.
  await migrate(direct.db(place.name));
  for (const [name, call] of Object.entries(READ_CASES)) {
    place.proxy.cutAtWrite(0, 'before');
    await call(place.store);
    expect([name, place.proxy.writes()]).toEqual([name, 0]);
  }
  await closePlace(place);
});

const CASES = Object.entries(ALL_WRITES).flatMap(([name, cases]) =>
  listCases(cases).map(([variant, one]) => [name + variant, one] as const),
);

describe('a call succeeds only if all of its writes took effect:', () => {
  test.each(CASES)('%s', async (name, one) => {
    const uncut = await run(one);
    expect(uncut.error).toBeUndefined();
    expect(uncut.writes).toBeGreaterThan(0);
    const points: CutPoint[] = ['before', 'after'];
    if (IN_HALVES.includes(name)) points.push('in the middle');
    const cuts = Array.from({ length: uncut.writes }, (_, index) =>
      points.map((point) => ({ n: index + 1, point })),
    ).flat();
    const runs: (RunResult & (typeof cuts)[number])[] = [];
    for (let at = 0; at < cuts.length; at += RUNS_AT_ONCE) {
      const together = cuts.slice(at, at + RUNS_AT_ONCE).map(async (cut) => {
        return { ...cut, ...(await run(one, cut.n, cut.point)) };
      });
      runs.push(...(await Promise.all(together)));
    }
    expect(runs.filter(({ n }) => n === 1).map(({ hasCut }) => hasCut)).not.toContain(false);
    const falseSuccesses = runs.filter(
      (ended) => ended.error === undefined && ended.database !== uncut.database,
    );
    expect(falseSuccesses.map(({ n, point, database }) => ({ n, point, database }))).toEqual([]);
  });
});
