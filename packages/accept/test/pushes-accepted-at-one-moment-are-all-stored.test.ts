import { newDeviceToken } from '@carillon/core/ids';
import { createProducers, type Producers } from '@carillon/queue/producers';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { openStore, type TestStore } from '../../../test/support/open-store.ts';
import { type OwnDatabase, startDatabase } from '../../../test/support/own-database.ts';
import { until } from '../../../test/support/until.ts';
import { startRedis } from '../../presence/test/start-server.ts';
import { acceptPush } from '../src/accept-push.ts';
import { parsePush } from '../src/parse-push.ts';

const APP = 'a'.repeat(24);
/** More than one batch holds. */
const MANY = 1_001;

let database: OwnDatabase;
let redis: Awaited<ReturnType<typeof startRedis>>;
let store: TestStore;
let producers: Producers;
let tokens: string[];
beforeAll(async () => {
  [database, redis] = await Promise.all([startDatabase(), startRedis()]);
  store = await openStore({ uri: database.uri, appName: 'test' });
  await store.migrate();
  producers = createProducers(redis, () => undefined);
  tokens = Array.from({ length: MANY }, newDeviceToken);
  const devices = tokens.map((token) => ({ token, platform: 'android' as const }));
  await store.imports.importDevices(APP, devices);
});
afterAll(async () => {
  await producers?.close();
  await store?.close();
  await redis?.stop();
  await database?.stop();
});

test('nothing is stored of a push of many batches whose client gets an error before the commit', async () => {
  const value = { to: tokens, data: {} };
  const request = await parsePush({ value, text: JSON.stringify(value) }, {}, store.clock.now());
  const areBatchesStored = async () => (await store.db.collection('batches').countDocuments()) > 0;
  let isAnswered = false;
  const insert: TestStore['batches']['insert'] = async (...args) => {
    const isComplete = await store.batches.insert(...args);
    isAnswered = await areBatchesStored();
    return isComplete;
  };
  const assertAwaited = () => {
    if (isAnswered) throw new Error('the client has its response');
  };
  const batches = { ...store.batches, insert };
  const accepting = acceptPush({ ...store, batches }, producers, APP, request, { assertAwaited });
  await expect(accepting).rejects.toThrow('the client has its response');
  await until(async () => !(await areBatchesStored()));
  const states = await store.db.collection('pushes').distinct('state');
  expect(states).toEqual(['abandoned']);
});

test.each([1, MANY])(
  'by three processes, scheduled for one second, to %d devices',
  async (devices) => {
    const acceptedMs = store.clock.now();
    const schedule = Math.floor(acceptedMs / 1_000) + 3_600;
    const value = { to: tokens.slice(0, devices), data: {}, schedule };
    const request = await parsePush({ value, text: JSON.stringify(value) }, {}, acceptedMs);
    /** Accepts as a process does that reads the same time as the others first, and later times after it. */
    const accept = () => {
      let readings = 0;
      const clock = { ...store.clock, now: () => acceptedMs + readings++ };
      return acceptPush({ ...store, clock }, producers, APP, request);
    };
    const ids = [(await accept()).id, (await accept()).id, (await accept()).id];
    expect([...new Set(ids)].sort()).toEqual(ids);
    for (const id of ids)
      expect(await store.pushes.find(APP, id)).toMatchObject({ state: 'scheduled', devices });
  },
);
