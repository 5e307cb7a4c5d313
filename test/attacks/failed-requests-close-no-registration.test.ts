import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { LIMITS } from '../../packages/core/src/limits.ts';
import { postWithoutKey } from '../support/api/keyless-calls.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { registerDevice } from '../support/register-device.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';

const INVALID_TOKEN = 'weird';
/** Requests of the attacker at once. They wait for one another, so that all but the first are late. */
const AT_ONCE = 16;
const MINUTE_MS = 60_000;

let stack: Stack;
let mongo: TestMongo;
let attacker: TestTenant;
beforeAll(async () => {
  stack = await useKillableStack({ restartsApis: true });
  mongo = await openMongo(stack.dev);
  attacker = await createTestTenant(stack, { limit: null });
});
afterAll(async () => {
  await mongo?.db.command({ collMod: 'devices', validator: {} });
  await mongo?.close();
  await stack?.stop();
});

const register = (fcmToken: string) =>
  postWithoutKey(stack.dev.api, '/register', {
    appId: stack.dev.app,
    platform: 'android',
    fcmToken,
  });

/** Registers devices over so many connections that each API process gets some. */
async function expectOpen(): Promise<void> {
  await Promise.all(Array.from({ length: 12 }, () => registerDevice(stack.dev)));
}

test('a document that MongoDB refuses fails only its own device', async () => {
  // Stands for any document that MongoDB refuses to store.
  const validator = { 'provider.address': { $ne: INVALID_TOKEN } };
  await mongo.db.command({ collMod: 'devices', validator });
  const refused = await Promise.all(Array.from({ length: 12 }, () => register(INVALID_TOKEN)));
  expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([503]));
  await expectOpen();
  expect((await register('plain')).status).toBe(200);
});

test('many devices that claim one address are no outage', async () => {
  const all = await Promise.all(Array.from({ length: 100 }, () => register('contested')));
  // Some of so many at once get a 503 and are repeated.
  for (const { status } of all) expect([200, 503]).toContain(status);
  await expectOpen();
});

test('requests of a tenant that wait for a lock beyond their deadline', async () => {
  const { token } = await registerDevice(attacker.dev);
  const readLogs = () => [0, 1].map((index) => stack.readLog('api', index));
  const before = readLogs();
  const subscribe = (from: number) =>
    attacker.api('POST', '/topics/subscribe', {
      token,
      topics: Array.from({ length: LIMITS.topicsPerSubscribe }, (_, n) => `topic-${from + n}`),
    });
  for (let n = 0; n < 4; n += 1) await subscribe(n * LIMITS.topicsPerSubscribe);
  // A call in another process holds the lock that further topics of the device need.
  const topicsLock = { owner: 'another', until: new Date(Date.now() + MINUTE_MS) };
  await mongo.db
    .collection<{ _id: string }>('devices')
    .updateOne({ _id: token }, { $set: { topicsLock } });
  const late = await Promise.all(Array.from({ length: AT_ONCE }, () => subscribe(1_000)));
  expect(late.filter(({ status }) => status >= 500)).toHaveLength(AT_ONCE);
  const added = readLogs().map((log, index) => log.slice(before[index]?.length));
  expect(added.join()).toContain('no response within');
  await expectOpen();
});
