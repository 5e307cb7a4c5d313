import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestServer } from '../../packages/presence/test/start-server.ts';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import {
  type CountedStatements,
  type CutPoint,
  type CuttingProxy,
  startCuttingProxy,
} from '../support/cutting-proxy.ts';
import { attemptPush } from '../support/faults/attempts.ts';
import { createDevicePool, type DevicePool } from '../support/faults/device-pool.ts';
import { countArrivals } from '../support/faults/expect-complete.ts';
import { type SentPush, sendPush } from '../support/faults/pushes.ts';
import { expectWholeOrAbsent, type SteadyPush } from '../support/faults/steady-pushes.ts';
import {
  createKeyedRequest,
  type KeyedRequest,
  retryUntilAccepted,
} from '../support/guarantees/partial-accept.ts';
import { startStackWithoutLimits } from '../support/guarantees/start-unlimited.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { startMongod } from '../support/mongod-server.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const ROUNDS = 10;
/** Text that only the statement that commits a push contains: in BSON, the field of its lease is unset. */
const COMMIT = '\x08acceptingUntil\0\x01';
/** Several batches' worth. */
const LARGE_AUDIENCE = 2_500;
const ARRIVED = { timeoutMs: 60_000, what: 'a push at every device' };

let mongod: TestServer;
let proxy: CuttingProxy;
let mongo: TestMongo;
let stack: Stack;
let pool: DevicePool;
beforeAll(async () => {
  mongod = await startMongod();
  proxy = await startCuttingProxy(mongod.port);
  const MONGODB_URI = `mongodb://127.0.0.1:${proxy.port}/carillon`;
  stack = await startStackWithoutLimits({ env: { MONGODB_URI } });
  // The test's own statements are never cut.
  mongo = await openMongo({ mongodb: `mongodb://127.0.0.1:${mongod.port}/carillon` });
  pool = await createDevicePool(stack, mongo, { registered: LARGE_AUDIENCE, real: 3 });
}, 120_000);
afterAll(async () => {
  await Promise.all((pool?.devices ?? []).map((device) => device.disconnect()));
  await mongo?.close();
  await stack?.stop();
  await proxy?.stop();
  await mongod?.stop();
});

const realTokens = () => pool.devices.map(({ token }) => token);
const hasEverywhere = (push: SentPush) =>
  pool.devices.every((device) => countArrivals(device, push) > 0);

/** Expects that the request has one push as its result, and that each real device has it once. */
async function expectOnePush(request: KeyedRequest, push: SentPush): Promise<void> {
  expect((await request.send()).text).toContain(push.id);
  const accepted = { data: push.payload, state: { $in: ['open' as const, 'finished' as const] } };
  const pushes = mongo.db.collection<PushDocument>('pushes');
  expect((await pushes.find(accepted).toArray()).map(({ _id }) => _id)).toEqual([push.id]);
  await until(() => hasEverywhere(push), ARRIVED);
  const last = await sendPush(stack, realTokens());
  await until(() => hasEverywhere(last), ARRIVED);
  expect(pool.devices.map((device) => countArrivals(device, push))).toEqual([1, 1, 1]);
}

async function untilCut(): Promise<void> {
  await until(() => proxy.isCutDone(), { timeoutMs: 20_000, what: 'a cut' });
  await until(async () => (await stack.api('GET', '/topics')).status === 200);
}

test.each<CutPoint>(['before', 'in the middle', 'after'])(
  'requests whose insert is cut %s: each push is stored whole or not at all, and a retry makes no second one',
  async (point) => {
    const kept: SteadyPush[] = [];
    const retried: { request: KeyedRequest; push: SentPush }[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      proxy.cutAtWrite(1, point, { collection: 'pushes', command: 'insert' });
      const requests = [0, 1].map(() => createKeyedRequest({ stack }, realTokens()));
      // All of them may share one insert.
      const first = requests.map((request) => request.send());
      const attempts = await Promise.all([0, 1].map(() => attemptPush(stack, realTokens())));
      kept.push(...attempts.map((attempt) => ({ ...attempt, to: pool.devices })));
      await Promise.all(first);
      await untilCut();
      for (const request of requests) {
        retried.push({ request, push: (await retryUntilAccepted(request)).push });
      }
    }
    await expectWholeOrAbsent(`insert cut ${point}`, { stack, mongo, pool }, kept);
    for (const { request, push } of retried) await expectOnePush(request, push);
  },
  120_000,
);

test.each<[string, CountedStatements]>([
  ['the push', { collection: 'pushes', command: 'insert' }],
  ['its batches', { collection: 'batches', command: 'insert' }],
  ['its commit', { collection: 'pushes', bytes: COMMIT }],
])(
  'a push of several batches whose response to %s is lost: a retry makes no second one',
  async (_what, only) => {
    const request = createKeyedRequest({ stack }, pool.tokens);
    proxy.cutAtWrite(1, 'after', only);
    await request.send();
    await untilCut();
    const { push } = await retryUntilAccepted(request);
    await expectOnePush(request, push);
  },
  120_000,
);
