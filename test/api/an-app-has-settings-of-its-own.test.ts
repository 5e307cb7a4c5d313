import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ONLY_API } from '../support/api/only-api.ts';
import { expectRefusal } from '../support/api/refusals.ts';
import { newTenant, type TestTenant } from '../support/api/tenants.ts';
import { askCarillon, runCarillon } from '../support/carillon.ts';
import { registerDevice } from '../support/register-device.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { statusOf } from '../support/thread/pushes.ts';
import { until } from '../support/until.ts';

/** How long an API process may go by what it knows of an app. */
const WITHIN = { timeoutMs: 10_000, everyMs: 200 };

let stack: Stack;
let tenant: TestTenant;
let token: string;
beforeAll(async () => {
  stack = await startStack(ONLY_API);
  tenant = await newTenant(stack, { limit: null });
  ({ token } = await registerDevice(tenant.dev));
});
afterAll(() => stack?.stop());

const set = (...args: string[]) => askCarillon(stack.home, 'app', 'set', tenant.app, ...args);
const push = (fields: object) => tenant.api('POST', '/push', { to: token, data: {}, ...fields });

test('its pushes may have longer payloads, or shorter ones', async () => {
  const longer = { data: { a: 'x'.repeat(9_000) } };
  expectRefusal(await push(longer), 'PAYLOAD_LIMIT_EXCEEDED');
  await set('--payload-limit', '9008');
  await until(async () => (await push(longer)).status === 200, WITHIN);
  expectRefusal(await push({ data: { a: 'x'.repeat(9_001) } }), 'PAYLOAD_LIMIT_EXCEEDED');
  await set('--payload-limit', '10');
  await until(async () => (await push(longer)).status === 400, WITHIN);
  expectRefusal(await push({ data: { a: 'xxx' } }), 'PAYLOAD_LIMIT_EXCEEDED');
  await set('--payload-limit', '4096');
});

test('data may come as a JSON string once that is switched on', async () => {
  const asText = { data: '{ "n": 12345678901234567890, "a": [1.0] }' };
  expectRefusal(await push(asText), 'INVALID_PARAM');
  expect(await set('--data-string', 'on')).toMatchObject({ dataString: true });
  const { json } = await until(async () => {
    const answer = await push(asText);
    return answer.status === 200 && answer;
  }, WITHIN);
  const { text } = await tenant.api('GET', `/pushes/${String(json.id)}`);
  expect(text).toContain('"payload":{"n":12345678901234567890,"a":[1.0]}');
  for (const data of ['Hello', '[1]', '"x"', 'null', '{"a":']) {
    expectRefusal(await push({ data }), 'INVALID_PARAM');
  }
  expect((await statusOf(tenant, String((await push({})).json.id))).payload).toEqual({});
});

test('a bundle id or host name belongs to one app', async () => {
  await set('--bundle-id', 'com.example.one', '--web-host', 'one.example');
  const other = await newTenant(stack);
  const taken = await runCarillon(stack.home, [
    'app',
    'set',
    other.app,
    '--web-host',
    'one.example',
  ]);
  expect([taken.code, taken.stderr]).toEqual([1, expect.stringContaining('another app')]);
});

test('what senders of other makes write is taken', async () => {
  const notification = { title: 'x', thread_id: 7, sound: { critical: 1, name: 'a', volume: 0.5 } };
  expect((await push({ notification })).status).toBe(200);
  const rpush = { data: {}, registration_ids: [token], delay_while_idle: false };
  expect((await tenant.api('POST', '/push/', rpush)).status).toBe(200);
});
