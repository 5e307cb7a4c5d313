import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { type Db, MongoClient } from 'mongodb';
import { type OwnDatabase, startDatabase } from '../../../test/support/own-database.ts';
import {
  createSchema,
  migrate,
  REQUIRED_SCHEMA_VERSION,
  SCHEMA_STEPS,
  type SchemaStep,
} from '../src/schema.ts';

const PROGRAM = fileURLToPath(new URL('./migrating-process.ts', import.meta.url));
const SHORT_LEASE_MS = 1_500;

let database: OwnDatabase;
let client: MongoClient;
let db: Db;
beforeAll(async () => {
  database = await startDatabase();
  client = await new MongoClient(database.uri).connect();
  db = client.db();
});
beforeEach(() => db.dropDatabase());
afterAll(async () => {
  await client?.close();
  await database?.stop();
});

/** Makes steps 1 to `count` that record their runs. */
function recordingSteps(count: number): { steps: SchemaStep[]; runs: number[] } {
  const runs: number[] = [];
  const steps = Array.from({ length: count }, (_, index) => ({
    version: index + 1,
    description: 'recorded',
    run: async () => void runs.push(index + 1),
  }));
  return { steps, runs };
}

const readSchema = () => db.collection('schema').find().toArray();

test('a database without a schema gets all indexes and the last version', async () => {
  const schema = createSchema(db);
  await expect(schema.assertUsable()).rejects.toThrow('run carillon migrate');
  const before = await schema.status();
  expect(before).toMatchObject({ version: 0, latest: SCHEMA_STEPS.length });
  const { indexes, ...result } = await migrate(db);
  const steps = SCHEMA_STEPS.map(({ version }) => version);
  expect(result).toEqual({ version: steps.length, steps });
  expect(indexes).toEqual(before.indexes);
  expect(indexes).toContain('keys(digest)');
  await schema.assertUsable();
  expect(await schema.status()).toMatchObject({ steps: [], indexes: [] });
  expect(await readSchema()).toEqual([{ _id: 'schema', version: steps.length }]);
});

test('steps are numbered without a gap, and services need no later one', () => {
  expect(SCHEMA_STEPS.map(({ version }) => version)).toEqual(SCHEMA_STEPS.map((_, n) => n + 1));
  expect(REQUIRED_SCHEMA_VERSION).toBeLessThanOrEqual(SCHEMA_STEPS.length);
});

test('a completed step is not run again, a missing index is created again', async () => {
  await migrate(db, recordingSteps(1));
  await db.collection('keys').dropIndex('digest_1');
  const { steps, runs } = recordingSteps(3);
  expect(await migrate(db, { steps })).toEqual({
    version: 3,
    steps: [2, 3],
    indexes: ['keys(digest)'],
  });
  expect(runs).toEqual([2, 3]);
});

test('one of several concurrent migrations runs the steps, the others wait for it', async () => {
  const { steps, runs } = recordingSteps(2);
  let waiting = 0;
  const [first, ...others] = steps;
  const allWait = Promise.withResolvers<void>();
  const slow: SchemaStep[] = [
    {
      ...(first as SchemaStep),
      run: async (of) => {
        await allWait.promise;
        await first?.run?.(of);
      },
    },
    ...others,
  ];
  const onWait = () => {
    waiting += 1;
    if (waiting === 2) allWait.resolve();
  };
  const all = [1, 2, 3].map(() => migrate(db, { steps: slow, onWait }));
  const results = await Promise.all(all);
  expect(runs).toEqual([1, 2]);
  expect(results.map(({ version }) => version)).toEqual([2, 2, 2]);
  expect(results.map((result) => result.steps.length).sort()).toEqual([0, 0, 2]);
});

test('a failed step is not recorded, and the next migration begins with it at once', async () => {
  const { steps, runs } = recordingSteps(3);
  const failing = steps.with(1, {
    version: 2,
    description: 'fails',
    run: () => Promise.reject(new Error('no such field')),
  });
  await expect(migrate(db, { steps: failing })).rejects.toThrow('no such field');
  expect(await readSchema()).toEqual([{ _id: 'schema', version: 1 }]);
  const waits: string[] = [];
  await migrate(db, { steps, onWait: () => void waits.push('waits') });
  expect(runs).toEqual([1, 2, 3]);
  expect(waits).toEqual([]);
});

test('a migration that runs longer than its lease keeps it, and the next one continues once it is killed', async () => {
  const child = spawn(process.execPath, [PROGRAM, database.uri, `${SHORT_LEASE_MS}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  await once(child.stdout, 'data');
  // It is in its second step.
  const before = await readSchema();
  let after = before;
  while (after[0]?.lease.until - before[0]?.lease.until < SHORT_LEASE_MS)
    after = await readSchema();
  expect(after[0]?.lease.owner).toBe(before[0]?.lease.owner);
  const { steps, runs } = recordingSteps(3);
  const continued = migrate(db, { steps });
  child.kill('SIGKILL');
  await exited;
  expect(await continued).toMatchObject({ version: 3, steps: [2, 3] });
  expect(runs).toEqual([2, 3]);
  expect(await readSchema()).toEqual([{ _id: 'schema', version: 3 }]);
});

test('a migration that has lost its lease records nothing', async () => {
  const takeOver = async (of: Db) => {
    const lease = { owner: 'another', until: new Date(0) };
    await of.collection('schema').updateOne({}, { $set: { lease } });
  };
  const steps = [{ version: 1, description: 'is frozen for long', run: takeOver }];
  await expect(migrate(db, { steps })).rejects.toThrow('another migration has taken over');
  expect(await readSchema()).toMatchObject([{ version: 0, lease: { owner: 'another' } }]);
});

test('the second step drops the index that gives an address to one device, and leaves the one that former devices need', async () => {
  const options = {
    unique: true,
    partialFilterExpression: { 'provider.address': { $exists: true } },
  };
  const devices = db.collection<{ _id: string; app: string; provider: object }>('devices');
  await devices.createIndex({ app: 1, 'provider.address': 1 }, options);
  const addDevice = (_id: string, fields: object = {}) =>
    devices.insertOne({ _id, app: 'one', provider: { address: 'fcm1', ...fields } });
  await addDevice('holder');
  await expect(addDevice('former', { formerOf: 'former' })).rejects.toThrow('duplicate key');
  await migrate(db);
  await addDevice('former', { formerOf: 'former' });
  await expect(addDevice('rival')).rejects.toThrow('duplicate key');
  // It is repeated by a migration that was killed before it recorded the step.
  await db.collection('schema').updateOne({}, { $set: { version: 1 } });
  expect(await migrate(db)).toEqual({ version: SCHEMA_STEPS.length, steps: [2], indexes: [] });
});

test('a schema newer than the program is left unchanged, and its services run', async () => {
  await migrate(db, recordingSteps(9));
  await db.collection('keys').dropIndexes();
  expect(await migrate(db)).toEqual({ version: 9, steps: [], indexes: [] });
  expect(await createSchema(db).status()).toMatchObject({ version: 9, steps: [], indexes: [] });
  await createSchema(db).assertUsable();
});
