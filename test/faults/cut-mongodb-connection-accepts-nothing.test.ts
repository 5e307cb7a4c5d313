import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestServer } from '../../packages/presence/test/start-server.ts';
import { type CutPoint, type CuttingProxy, startCuttingProxy } from '../support/cutting-proxy.ts';
import { attemptPush } from '../support/faults/attempts.ts';
import { createDevicePool } from '../support/faults/device-pool.ts';
import { pushStatusOf, type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { subscribePool } from '../support/faults/subscribe-pool.ts';
import { startStackWithoutLimits } from '../support/guarantees/start-unlimited.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { startMongod } from '../support/mongod-server.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const CUTS = 10;
const SUBSCRIBERS = 3_000;

let mongod: TestServer;
let proxy: CuttingProxy;
let mongo: TestMongo;
let stack: Stack;
beforeAll(async () => {
  mongod = await startMongod();
  proxy = await startCuttingProxy(mongod.port);
  const MONGODB_URI = `mongodb://127.0.0.1:${proxy.port}/carillon`;
  stack = await startStackWithoutLimits({ env: { MONGODB_URI } });
  // The test's own statements are never cut.
  mongo = await openMongo({ mongodb: `mongodb://127.0.0.1:${mongod.port}/carillon` });
});
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
  await proxy?.stop();
  await mongod?.stop();
});

/** Past the API, which registers no device for a minute after a failure of the database. */
async function register(registered: number): Promise<string[]> {
  return (await createDevicePool(stack, mongo, { registered, real: 0 })).tokens;
}

function isStored(data: string): Promise<boolean> {
  const found = mongo.db.collection('pushes').findOne({ data });
  return found.then((push) => push !== null);
}

/** Waits until the cut has happened and the API responds again. */
async function untilIdle(): Promise<void> {
  await until(() => proxy.isCutDone(), { timeoutMs: 20_000 });
  await until(async () => (await stack.api('GET', '/topics')).status === 200);
}

test.each<CutPoint>(['before', 'in the middle'])(
  'no push is accepted whose insert was cut %s',
  async (point) => {
    const [token = ''] = await register(1);
    for (let i = 0; i < CUTS; i++) {
      proxy.cutAtWrite(1, point, { collection: 'pushes' });
      const attempt = await attemptPush(stack, token);
      expect(attempt.isAccepted).toBe(await isStored(attempt.payload));
      await untilIdle();
    }
  },
);

test.each<CutPoint>(['before', 'in the middle', 'after'])(
  'a push to offline devices is pending for all of them after a cut %s their rows',
  async (point) => {
    const tokens = await register(3);
    proxy.cutAtWrite(1, point, { collection: 'inbox' });
    const pushes = [
      await sendPush(stack, tokens),
      await sendPush(stack, tokens, { collapse_key: 'k' }),
    ];
    await untilIdle();
    for (const push of pushes) await untilOutcomes(mongo, push, { inbox: 3 });
  },
);

test.each<CutPoint>(['before', 'in the middle', 'after'])(
  'a push to a topic reaches all subscribers after a cut %s its batches',
  async (point) => {
    const pool = await createDevicePool(stack, mongo, { registered: SUBSCRIBERS, real: 0 });
    const fixture = { stack, mongo, pool, close: async () => undefined };
    const topic = await subscribePool(fixture, `topic-${point.replaceAll(' ', '-')}`);
    proxy.cutAtWrite(2, point, { collection: 'batches' });
    const push = await sendPush(stack, topic);
    await untilIdle();
    await untilOutcomes(mongo, push, { inbox: SUBSCRIBERS });
    await expectPending(push);
  },
);

async function expectPending(push: SentPush): Promise<void> {
  expect((await pushStatusOf(mongo, push)).state).toBe('open');
}
