import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { LIMITS } from '../../packages/core/src/limits.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { registerDevice } from '../support/register-device.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** Requests of the attacker at once. They wait for one another, so that all but the first are late. */
const AT_ONCE = 16;
const MINUTE_MS = 60_000;
/** Less than the time limit of a statement. */
const REFUSED_MS = 1_500;

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

test('a frozen MongoDB closes registration, also if only requests of a tenant noticed it', async () => {
  const list = () => attacker.api('GET', '/topics/any');
  const register = () =>
    registerDevice(victim.dev).then(
      () => 'registered',
      (error: Error) => error.message.slice(0, 'register: 503'.length),
    );
  stack.kill('mongodb', 'SIGSTOP');
  try {
    expect((await list()).status).toBe(500);
    // Its own statements would get no response: it is refused without any.
    await until(async () => {
      const startedAt = performance.now();
      return (await register()) === 'register: 503' && performance.now() - startedAt < REFUSED_MS;
    });
  } finally {
    stack.kill('mongodb', 'SIGCONT');
  }
  await until(async () => (await list()).status === 200);
  expect(await register()).toBe('register: 503');
});
