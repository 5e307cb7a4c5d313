import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { readLogLines } from '../support/end-to-end/logs.ts';
import { send, untilPending } from '../support/end-to-end/pushes.ts';
import { startStackWithoutLimits } from '../support/guarantees/start-unlimited.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { openMongo } from '../support/mongo.ts';
import { openRedis } from '../support/redis.ts';
import { readRedisContents } from '../support/redis-contents.ts';
import { registerDevice } from '../support/register-device.ts';
import type { Stack } from '../support/stack.ts';

let stack: Stack;
let tenant: TestTenant;
const responses: string[] = [];
beforeAll(async () => {
  stack = await startStackWithoutLimits();
  tenant = await createTestTenant(stack, { limit: null });
  await sendRequestsWithKey();
});
afterAll(() => stack?.stop());

/** Every route with the key, with valid and invalid requests, also while the database is frozen. */
async function sendRequestsWithKey(): Promise<void> {
  const { token } = await registerDevice(tenant.dev);
  await tenant.api('POST', '/topics/subscribe', { token, topics: ['news'] });
  const { id } = await send(tenant, token);
  await untilPending(tenant, id, [token]);
  const calls: [string, string, unknown?][] = [
    ['POST', '/push', { to: token, data: {}, time_to_live: -1 }],
    ['POST', '/push', '{"to":'],
    ['GET', `/pushes/${id}`],
    ['DELETE', '/pushes/x'],
    ['GET', `/devices/${token}`],
    ['GET', '/devices/x'],
    ['GET', '/nothing'],
    ['GET', '/pushes/%zz'],
    ['POST', '/devices/presence', { tokens: [token] }],
    ['POST', '/topics/unsubscribe', { token, topics: ['*'] }],
    ['GET', '/topics'],
  ];
  const callAll = async () => {
    for (const [method, path, body] of calls) {
      responses.push((await tenant.api(method, path, body)).text);
    }
  };
  await callAll();
  await whileFrozen(stack, [{ service: 'mongodb' }], async () => {
    responses.push((await tenant.api('GET', '/topics')).text);
    responses.push((await tenant.api('POST', '/push', { to: token, data: {} })).text);
  });
}

test('in no response', () => {
  expect(responses.filter((text) => text.includes(tenant.apiKey))).toEqual([]);
});

test('in no log', () => {
  const lines = readLogLines(stack.home);
  expect(lines.length).toBeGreaterThan(responses.length);
  expect(lines.filter((line) => line.includes(tenant.apiKey))).toEqual([]);
  expect(lines.filter((line) => line.includes('api_key='))).toEqual([]);
});

test('in no metric', async () => {
  for (const { ops } of stack.dev.processes) {
    if (ops === undefined) continue;
    const text = await (await fetch(`${ops}/metrics`)).text();
    expect(text).toContain('process_cpu');
    expect(text).not.toContain(tenant.apiKey);
  }
});

test('in no job and in no other key of Redis', async () => {
  const redis = await openRedis(stack.dev);
  const entries = await readRedisContents(redis);
  redis.disconnect();
  expect(entries.length).toBeGreaterThan(0);
  const found = entries.filter(({ key, text }) => `${key} ${text}`.includes(tenant.apiKey));
  expect(found).toEqual([]);
});

test('in no document', async () => {
  const mongo = await openMongo(stack.dev);
  const collections = await mongo.db.collections();
  const found = await Promise.all(collections.map((collection) => collection.find().toArray()));
  await mongo.close();
  expect(found.flat().length).toBeGreaterThan(0);
  expect(JSON.stringify(found)).not.toContain(tenant.apiKey);
});
