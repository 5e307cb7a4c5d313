import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { LIMITS } from '../../packages/core/src/limits.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { registerDevice } from '../support/register-device.ts';
import { type Stack, startStack } from '../support/stack.ts';

/** Requests of the attacker at once. They wait for one another, so that all but the first are late. */
const AT_ONCE = 16;
const MINUTE_MS = 60_000;

let stack: Stack;
let mongo: TestMongo;
let attacker: TestTenant;
let victim: TestTenant;
beforeAll(async () => {
  stack = await startStack(ONLY_API);
  mongo = await openMongo(stack.dev);
  attacker = await createTestTenant(stack, { limit: null });
  victim = await createTestTenant(stack, { limit: null });
});
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
});

test('requests of a tenant that exceed their deadline leave registration open', async () => {
  const { token } = await registerDevice(attacker.dev);
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
  expect(stack.readLog('api')).toContain('no response within');
  for (let n = 0; n < 5; n += 1) await registerDevice(victim.dev);
});
