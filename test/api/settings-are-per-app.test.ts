import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { runCarillon, runCarillonJson } from '../support/carillon.ts';
import { getPushStatus } from '../support/end-to-end/pushes.ts';
import { registerDevice } from '../support/register-device.ts';
import type { ApiResponse } from '../support/stack/call-api.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** How long an API process may use its cache of an app. */
const POLL_OPTIONS = { timeoutMs: 10_000, everyMs: 200 };

/** An app and a device of it. */
interface App {
  tenant: TestTenant;
  token: string;
  set(...args: string[]): Promise<Record<string, unknown>>;
  push(fields: object): Promise<ApiResponse<Record<string, unknown>>>;
}

let stack: Stack;
let one: App;
let second: App;
/** Settings that take seconds until the API goes by them, each of an app of its own. */
let begun: Record<'payloadLimit' | 'dataString', Promise<void>>;
beforeAll(async () => {
  stack = await startStack(ONLY_API);
  [one, second] = [await createApp(), await createApp()];
  begun = { payloadLimit: setPayloadLimit(one), dataString: allowDataString(second) };
  // Its own test reports its failure.
  for (const checked of Object.values(begun)) checked.catch(() => undefined);
});
afterAll(() => stack?.stop());

async function createApp(): Promise<App> {
  const tenant = await createTestTenant(stack, { limit: null });
  const { token } = await registerDevice(tenant.dev);
  return {
    tenant,
    token,
    set: (...args) => runCarillonJson(stack.home, 'app', 'set', tenant.app, ...args),
    push: (fields) => tenant.api('POST', '/push', { to: token, data: {}, ...fields }),
  };
}

test('the limit of its payloads may be higher or lower', () => begun.payloadLimit);

test('data may be a JSON string once that is enabled', () => begun.dataString);

async function setPayloadLimit({ set, push }: App): Promise<void> {
  const longer = { data: { a: 'x'.repeat(9_000) } };
  expectApiError(await push(longer), 'PAYLOAD_LIMIT_EXCEEDED');
  await set('--payload-limit', '9008');
  await until(async () => (await push(longer)).status === 200, POLL_OPTIONS);
  expectApiError(await push({ data: { a: 'x'.repeat(9_001) } }), 'PAYLOAD_LIMIT_EXCEEDED');
  await set('--payload-limit', '10');
  await until(async () => (await push(longer)).status === 400, POLL_OPTIONS);
  expectApiError(await push({ data: { a: 'xxx' } }), 'PAYLOAD_LIMIT_EXCEEDED');
  await set('--payload-limit', '4096');
}

async function allowDataString({ tenant, set, push }: App): Promise<void> {
  const asText = { data: '{ "n": 12345678901234567890, "a": [1.0] }' };
  expectApiError(await push(asText), 'INVALID_PARAM');
  expect(await set('--data-string', 'on')).toMatchObject({ dataString: true });
  const { json } = await until(async () => {
    const response = await push(asText);
    return response.status === 200 && response;
  }, POLL_OPTIONS);
  const { text } = await tenant.api('GET', `/pushes/${String(json.id)}`);
  expect(text).toContain('"payload":{"n":12345678901234567890,"a":[1.0]}');
  for (const data of ['Hello', '[1]', '"x"', 'null', '{"a":']) {
    const refusal = await push({ data });
    expectApiError(refusal, 'INVALID_PARAM');
    expect(refusal.json.error).toMatch(/^The parameter "data" is a string that /);
  }
  expect((await getPushStatus(tenant, String((await push({})).json.id))).payload).toEqual({});
}

test('a bundle id or host name belongs to one app', async () => {
  await one.set('--bundle-id', 'com.example.one', '--web-host', 'one.example');
  const other = await createTestTenant(stack);
  const taken = await runCarillon(stack.home, [
    'app',
    'set',
    other.app,
    '--web-host',
    'one.example',
  ]);
  expect([taken.code, taken.stderr]).toEqual([1, expect.stringContaining('another app')]);
});

test('pushes in the formats of other senders are accepted', async () => {
  const { tenant, token, push } = second;
  const notification = { title: 'x', thread_id: 7, sound: { critical: 1, name: 'a', volume: 0.5 } };
  expect((await push({ notification })).status).toBe(200);
  const rpush = { data: {}, registration_ids: [token], delay_while_idle: false };
  expect((await tenant.api('POST', '/push/', rpush)).status).toBe(200);
});
