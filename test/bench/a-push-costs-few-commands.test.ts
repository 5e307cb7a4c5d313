import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type CommandCounts, countCommands, perPush } from '../../bench/support/command-counts.ts';
import { runAtRate } from '../../bench/support/load-patterns.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { openRedis } from '../support/redis.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const DEVICES = 20;

let stack: Stack;
let tenant: TestTenant;
let mongo: TestMongo;
let redis: Awaited<ReturnType<typeof openRedis>>;
let devices: MqttDevice[];
let sent = 0;
let idle: CommandCounts;
beforeAll(async () => {
  stack = await startStack({ sandbox: false, env: { CARILLON_ADDRESS_LIMITS: 'off' } });
  tenant = await createTestTenant(stack, { limit: null });
  [mongo, redis] = await Promise.all([openMongo(stack.dev), openRedis(stack.dev)]);
  devices = await Promise.all(Array.from({ length: DEVICES }, () => newMqttDevice(tenant.dev)));
  for (const device of devices) await device.connect();
  // Scripts are loaded, caches filled, code compiled.
  await runAtRate(200, 600, () => sendPush());
  await untilArrived();
  idle = await count(10);
});
afterAll(async () => {
  for (const device of devices ?? []) await device.disconnect();
  redis?.disconnect();
  await mongo?.close();
  await stack?.stop();
});

/** The scheduler is frozen: on a busy machine its ticks of a second fall into some seconds and leave out others. */
const count = (seconds: number, task?: () => Promise<void>) =>
  whileFrozen(stack, [{ service: 'scheduler' }], () =>
    countCommands({ mongo: mongo.db, redis }, seconds, task),
  );

/** Sends a push to one device; each gets the next in turn. */
async function sendPush(headers: Record<string, string> = {}): Promise<void> {
  const to = devices[sent++ % DEVICES]?.token;
  const response = await fetch(new URL('/push', tenant.dev.api), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${tenant.apiKey}`,
      'content-type': 'application/json',
      ...headers,
    },
    body: JSON.stringify({ to, data: { message: 'Hello' } }),
  });
  expect([response.status, await response.json()]).toMatchObject([200, { success: true }]);
}

async function untilArrived(): Promise<void> {
  const countArrivals = () => devices.reduce((sum, { arrivals }) => sum + arrivals.length, 0);
  await until(() => countArrivals() === sent);
}

const withoutKey = () => ({});
const withKey = () => ({ 'idempotency-key': randomUUID() });

/**
 * Most commands of a push. Alone it has the same in every run. At 200 a second pushes share commands: on a slow machine more of
 * them than on a fast one, so these bounds are further from what is measured.
 */
test.each([
  ['alone', 1, withoutKey, { redis: 70, mongodb: 4 }],
  ['alone, with a key', 1, withKey, { redis: 70, mongodb: 5 }],
  ['200 times a second', 200, withoutKey, { redis: 62, mongodb: 2.2 }],
  ['200 times a second, with a key', 200, withKey, { redis: 62, mongodb: 4.8 }],
])('a push that is sent %s', async (name, perSecond, headers, atMost) => {
  const seconds = perSecond === 1 ? 10 : 5;
  const rates = await count(seconds, () =>
    runAtRate(perSecond, perSecond, () => sendPush(headers())),
  );
  await untilArrived();
  const measured = {
    redis: perPush(rates.redis, idle.redis, perSecond),
    mongodb: perPush(rates.mongodb, idle.mongodb, perSecond),
  };
  process.stderr.write(`commands of a push, ${name}: ${JSON.stringify(measured)}\n`);
  expect(measured.redis.all).toBeLessThanOrEqual(atMost.redis);
  expect(measured.mongodb.all).toBeLessThanOrEqual(atMost.mongodb);
});
