import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestServer } from '../../packages/presence/test/start-server.ts';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import {
  type CountedStatements,
  type CutPoint,
  type CuttingProxy,
  startCuttingProxy,
} from '../support/cutting-proxy.ts';
import { createDevicePool, type DevicePool } from '../support/faults/device-pool.ts';
import {
  countArrivals,
  untilAllArrived,
  untilAnotherArrived,
} from '../support/faults/expect-complete.ts';
import {
  attemptPush,
  pushStatusOf,
  type SentPush,
  sendPush,
  untilOutcomes,
} from '../support/faults/pushes.ts';
import { expectWholeOrAbsent, type SteadyPush } from '../support/faults/steady-pushes.ts';
import { subscribePool } from '../support/faults/subscribe-pool.ts';
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
const POINTS: readonly CutPoint[] = ['before', 'in the middle', 'after'];
/** Text that only the statement that commits a push contains: in BSON, the field of its lease is unset. */
const COMMIT = '\x08acceptingUntil\0\x01';
/** Several batches' worth. */
const LARGE_AUDIENCE = 2_500;
const LIMIT_MS = 120_000;

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
}, LIMIT_MS);
afterAll(async () => {
  await Promise.all((pool?.devices ?? []).map((device) => device.disconnect()));
  await mongo?.close();
  await stack?.stop();
  await proxy?.stop();
  await mongod?.stop();
});

const realTokens = () => pool.devices.map(({ token }) => token);
const pushes = () => mongo.db.collection<PushDocument>('pushes');

/** Expects that the request has one push as its result, and that each real device has it once. */
async function expectOnePush(request: KeyedRequest, push: SentPush): Promise<void> {
  expect((await request.send()).text).toContain(push.id);
  const accepted = { data: push.payload, state: { $in: ['open' as const, 'finished' as const] } };
  expect((await pushes().find(accepted).toArray()).map(({ _id }) => _id)).toEqual([push.id]);
  await untilAllArrived(pool.devices, [push]);
  await untilAnotherArrived(stack, pool.devices);
  expect(pool.devices.map((device) => countArrivals(device, push))).toEqual([1, 1, 1]);
}

/** Waits until the cut has happened and the API responds again. */
async function untilCut(): Promise<void> {
  await until(() => proxy.isCutDone(), { timeoutMs: 60_000, what: 'a cut' });
  await until(async () => (await stack.api('GET', '/topics')).status === 200);
}

test.each(POINTS)(
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
  LIMIT_MS,
);

test.each<CutPoint>(['before', 'in the middle'])(
  'a push alone whose insert is cut %s is accepted only if it is stored',
  async (point) => {
    for (let round = 0; round < ROUNDS; round += 1) {
      proxy.cutAtWrite(1, point, { collection: 'pushes' });
      const { isAccepted, payload } = await attemptPush(stack, pool.tokens.slice(-1));
      expect((await pushes().findOne({ data: payload })) !== null).toBe(isAccepted);
      await untilCut();
    }
  },
  LIMIT_MS,
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
  LIMIT_MS,
);

test.each(POINTS)(
  'a push to offline devices is pending for all of them after a cut %s their rows',
  async (point) => {
    const tokens = pool.tokens.slice(-3);
    proxy.cutAtWrite(1, point, { collection: 'inbox' });
    const sent = [
      await sendPush(stack, tokens),
      await sendPush(stack, tokens, { collapse_key: `k${point.length}` }),
    ];
    await untilCut();
    for (const push of sent) await untilOutcomes(mongo, push, { inbox: 3 });
  },
);

test.each(POINTS)(
  'a push to a topic reaches all subscribers after a cut %s its batches',
  async (point) => {
    const offline = { tokens: pool.tokens.slice(pool.devices.length), devices: [] };
    const name = `topic-${point.replaceAll(' ', '-')}`;
    const topic = await subscribePool({ stack, mongo, pool: offline }, name);
    proxy.cutAtWrite(2, point, { collection: 'batches' });
    const push = await sendPush(stack, topic);
    await untilCut();
    await untilOutcomes(mongo, push, { inbox: offline.tokens.length });
    expect((await pushStatusOf(mongo, push)).state).toBe('open');
  },
);
