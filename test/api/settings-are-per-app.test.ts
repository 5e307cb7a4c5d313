import { beforeAll, expect, test } from '@jest/globals';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { runCarillonHere, runCarillonJson } from '../support/carillon.ts';
import { getPushStatus } from '../support/end-to-end/pushes.ts';
import { registerDevice } from '../support/register-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import type { ApiResponse } from '../support/stack/call-api.ts';
import { until } from '../support/until.ts';

/** An app and a device of it. */
interface App {
  tenant: TestTenant;
  token: string;
  set(...args: string[]): Promise<Record<string, unknown>>;
  push(fields: object): Promise<ApiResponse<Record<string, unknown>>>;
  /** Repeats a push until its response is as expected: each API process may use its cache of an app for seconds. */
  pushUntil(
    fields: object,
    expected: { code: string } | { success: true },
  ): Promise<ApiResponse<Record<string, unknown>>>;
}

let stack: SharedStack;
let one: App;
let second: App;
/** Settings that take seconds until the API goes by them, each of an app of its own. */
let begun: Record<'payloadLimit' | 'dataString', Promise<void>>;
beforeAll(async () => {
  stack = await useSharedStack();
  [one, second] = [await createApp(), await createApp()];
  begun = { payloadLimit: setPayloadLimit(one), dataString: allowDataString(second) };
  // Its own test reports its failure.
  for (const checked of Object.values(begun)) checked.catch(() => undefined);
});

async function createApp(): Promise<App> {
  const tenant = await createTestTenant(stack, { limit: null });
  const { token } = await registerDevice(tenant.dev);
  const push: App['push'] = (fields) =>
    tenant.api('POST', '/push', { to: token, data: {}, ...fields });
  return {
    tenant,
    token,
    push,
    set: (...args) => runCarillonJson(stack.home, 'app', 'set', tenant.app, ...args),
    pushUntil: (fields, expected) =>
      until(
        async () => {
          const response = await push(fields);
          const isExpected = Object.entries(expected).every(([k, v]) => response.json[k] === v);
          return isExpected && response;
        },
        { everyMs: 100 },
      ),
  };
}

test('the limit of its payloads may be higher or lower', () => begun.payloadLimit);

test('data may be a JSON string once that is enabled', () => begun.dataString);

const ACCEPTED = { success: true } as const;
const TOO_LARGE = { code: 'PAYLOAD_LIMIT_EXCEEDED' };

async function setPayloadLimit({ set, push, pushUntil }: App): Promise<void> {
  const longer = { data: { a: 'x'.repeat(9_000) } };
  expectApiError(await push(longer), 'PAYLOAD_LIMIT_EXCEEDED');
  await set('--payload-limit', '9008');
  // Over so many connections that each API process gets some.
  await Promise.all(Array.from({ length: 10 }, () => pushUntil(longer, ACCEPTED)));
  expectApiError(await push({ data: { a: 'x'.repeat(9_001) } }), 'PAYLOAD_LIMIT_EXCEEDED');
  await set('--payload-limit', '10');
  expectApiError(await pushUntil({ data: { a: 'xxx' } }, TOO_LARGE), 'PAYLOAD_LIMIT_EXCEEDED');
  await set('--payload-limit', '4096');
}

async function allowDataString({ tenant, set, push, pushUntil }: App): Promise<void> {
  const asText = { data: '{ "n": 12345678901234567890, "a": [1.0] }' };
  expectApiError(await push(asText), 'INVALID_PARAM');
  expect(await set('--data-string', 'on')).toMatchObject({ dataString: true });
  const { json } = await pushUntil(asText, ACCEPTED);
  const { text } = await tenant.api('GET', `/pushes/${String(json.id)}`);
  expect(text).toContain('"payload":{"n":12345678901234567890,"a":[1.0]}');
  const warned = await pushUntil({ data: '{"\\u0061ps":{}}' }, ACCEPTED);
  expect(warned.json.info).toMatchObject({
    warnings: ['data.aps: replaced by ours for iOS devices; use apns.payload'],
  });
  for (const data of ['Hello', '[1]', '"x"', 'null', '{"a":']) {
    // A process that does not allow texts yet gives another reason.
    const refusal = await until(async () => {
      const response = await push({ data });
      return (
        /^The parameter "data" is a string that /.test(String(response.json.error)) && response
      );
    });
    expectApiError(refusal, 'INVALID_PARAM');
  }
  expect((await getPushStatus(tenant, String((await push({})).json.id))).payload).toEqual({});
}

test('a bundle id or host name belongs to one app', async () => {
  await one.set('--bundle-id', 'com.example.settings', '--web-host', 'settings.example');
  const { app } = second.tenant;
  const args = ['app', 'set', app, '--web-host', 'settings.example'];
  const taken = await runCarillonHere(stack.home, args);
  expect([taken.code, taken.stderr]).toEqual([1, expect.stringContaining('another app')]);
});

test('pushes in the formats of other senders are accepted', async () => {
  const { tenant, token, push } = second;
  const notification = { title: 'x', thread_id: 7, sound: { critical: 1, name: 'a', volume: 0.5 } };
  expect((await push({ notification })).status).toBe(200);
  const rpush = { data: {}, registration_ids: [token], delay_while_idle: false };
  expect((await tenant.api('POST', '/push/', rpush)).status).toBe(200);
});
