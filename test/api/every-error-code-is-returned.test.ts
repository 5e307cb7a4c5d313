import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { API_ERRORS, type ApiErrorCode } from '../../packages/core/src/api-error.ts';
import { WEBHOOK_LIMITS } from '../../packages/core/src/webhooks.ts';
import type { AppSettings } from '../../packages/store/src/apps.ts';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { callWithoutKey, postWithoutKey } from '../support/api/keyless-calls.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import { appleAddress } from '../support/api/provider-addresses.ts';
import { createTestTenant, type TestTenant, withStore } from '../support/api/tenants.ts';
import { storeWebhookKey } from '../support/api/webhook-key.ts';
import {
  openUnfinishedHead,
  parseResponse,
  type UnfinishedRequest,
} from '../support/attacks/unfinished-request.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { registerDevice } from '../support/register-device.ts';
import type { ApiResponse } from '../support/stack/call-api.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const UNKNOWN_ID = 'f'.repeat(24);
const WRONG_KEY = 'f'.repeat(64);
const WRONG_KEYS_AN_HOUR = 100;

let stack: Stack;
let tenant: TestTenant;
let other: TestTenant;
let token: string;
/** Begun before all tests, for its response takes 10 s. */
let unfinishedHead: UnfinishedRequest;
beforeAll(async () => {
  stack = await startStack({ ...ONLY_API, apis: 2 });
  unfinishedHead = await openUnfinishedHead(stack.dev.api);
  tenant = await createTestTenant(stack, { limit: null });
  other = await createTestTenant(stack, { limit: 1 });
  ({ token } = await registerDevice(tenant.dev));
});
afterAll(async () => {
  unfinishedHead?.socket.destroy();
  await stack?.stop();
});

const push = (fields: object) => tenant.api('POST', '/push', { to: token, data: {}, ...fields });
const post = (path: string, body: unknown) => postWithoutKey(stack.dev.api, path, body);
const getTopics = (query: string, headers: Record<string, string> = {}) =>
  callWithoutKey(stack.dev.api, `/topics${query}`, { headers });
const withWrongKey = (end: unknown = '') => getTopics(`?api_key=${WRONG_KEY}${end}`);
const register = (appId: string, fields: object = {}) =>
  post('/register', { appId, platform: 'electron', ...fields });
const setOf = (app: string) => (settings: AppSettings) =>
  withStore(stack, ({ apps }) => apps.updateSettings(app, settings));
const inAnHour = () => Math.floor(Date.now() / 1_000) + 3_600;

describe('new devices', () => {
  test('register as often an hour as the app allows, and never while it is closed', async () => {
    const { app } = await createTestTenant(stack);
    const set = setOf(app);
    await set({ registrationsPerHour: 2 });
    // Of one device: its own id is no way around the limit.
    const device = { deviceId: UNKNOWN_ID };
    for (const _ of ['first', 'second']) expect((await register(app, device)).status).toBe(200);
    const refused = await register(app, device);
    expectApiError(refused, 'RATE_LIMIT_EXCEEDED');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    await set({ registrationsPerHour: null });
    expect((await register(app)).status).toBe(200);
    await set({ registrationClosed: true });
    expectApiError(await register(app), 'REGISTRATION_CLOSED');
    await set({ registrationClosed: false });
    expect((await register(app)).status).toBe(200);
  });

  test('check their credentials without a limit', async () => {
    const body = { token: 'a6345d0278adc55d3474f5', auth: '0'.repeat(64) };
    for (let n = 0; n < 300; n += 10) {
      const checks = Array.from({ length: 10 }, () => post('/devices/auth', body));
      for (const response of await Promise.all(checks))
        expectApiError(response, 'INVALID_DEVICE_AUTH');
    }
  });
});

/** A request for each error, in this order: the wrong keys of the last ones would affect the others. */
const REQUESTS_BY_CODE: Record<ApiErrorCode, () => Promise<ApiResponse<object>>> = {
  INVALID_PARAM: () => push({ time_to_live: -1 }),
  NO_RECIPIENTS: () => push({ to: 'unknown' }),
  async NO_APNS_AUTH() {
    const body = { appId: tenant.app, platform: 'ios', ...appleAddress() };
    const { json } = await postWithoutKey<{ token: string }>(stack.dev.api, '/register', body);
    return push({ to: json.token });
  },
  NO_WEB_PUSH_AUTH: () => callWithoutKey(stack.dev.api, `/web-push/public-key?appId=${tenant.app}`),
  PAYLOAD_LIMIT_EXCEEDED: () => push({ data: { a: 'x'.repeat(4_096) } }),
  INVALID_PUSH_ID: () => tenant.api('GET', `/pushes/${UNKNOWN_ID}`),
  async PUSH_SCHEDULED() {
    const { id } = await send(tenant, token, { schedule: inAnHour() });
    return tenant.api('GET', `/pushes/${id}`);
  },
  async APP_MISMATCH() {
    const { token: foreign } = await registerDevice(stack.dev);
    return tenant.api('GET', `/devices/${foreign}`);
  },
  INVALID_WEBHOOK_ID: () => tenant.api('POST', `/webhooks/${UNKNOWN_ID}/off`),
  async WEBHOOK_LIMIT_EXCEEDED() {
    await storeWebhookKey(stack);
    const add = () => tenant.api('POST', '/webhooks', { url: 'https://example.org/' });
    for (let n = 0; n < WEBHOOK_LIMITS.perApp; n += 1) expect((await add()).status).toBe(200);
    return add();
  },
  INVALID_DEVICE_TOKEN: () => tenant.api('GET', '/devices/unknown'),
  INVALID_DEVICE_AUTH: () => post('/devices/auth', { token, auth: 'wrong' }),
  INVALID_APP_ID: () => register(UNKNOWN_ID),
  NO_RESULTS: () => tenant.api('POST', '/devices/presence', { tokens: ['unknown'] }),
  INVALID_API_KEY: () => withWrongKey(),
  async AUTH_LIMIT_EXCEEDED() {
    // The request before was the first one.
    for (let i = 1; i < WRONG_KEYS_AN_HOUR; i += 1)
      expectApiError(await withWrongKey(i), 'INVALID_API_KEY');
    return withWrongKey();
  },
  async ACCOUNT_SUSPENDED() {
    const suspended = await createTestTenant(stack);
    await withStore(stack, ({ accounts }) => accounts.suspend(suspended.account));
    return suspended.api('GET', '/topics');
  },
  async REGISTRATION_CLOSED() {
    const { app } = await createTestTenant(stack);
    await setOf(app)({ registrationClosed: true });
    return register(app);
  },
  NOT_FOUND: () => tenant.api('GET', '/nothing'),
  METHOD_NOT_ALLOWED: () => tenant.api('PUT', '/push', {}),
  async REQUEST_TIMEOUT() {
    const { socket, text } = unfinishedHead;
    const response = await until(() => parseResponse(text()));
    socket.destroy();
    return response;
  },
  BODY_TOO_LARGE: () => post('/devices/auth', { token: 'x'.repeat(100_000) }),
  UNSUPPORTED_MEDIA_TYPE: () =>
    callWithoutKey(stack.dev.api, `/push?api_key=${tenant.apiKey}`, {
      method: 'POST',
      body: 'a=1',
    }),
  HEADERS_TOO_LARGE: () =>
    callWithoutKey(stack.dev.api, '/topics', { headers: { 'x-large': 'x'.repeat(20_000) } }),
  async RATE_LIMIT_EXCEEDED() {
    await other.api('GET', '/topics');
    return other.api('GET', '/topics');
  },
  INTERNAL_SERVER_ERROR: () =>
    whileFrozen(stack, [{ service: 'mongodb' }], () => tenant.api('GET', '/topics')),
  SERVICE_UNAVAILABLE: () =>
    whileFrozen(stack, [{ service: 'mongodb' }], () => register(tenant.app)),
};

test.each(Object.keys(REQUESTS_BY_CODE) as ApiErrorCode[])('%s', async (code) => {
  const response = await REQUESTS_BY_CODE[code]();
  expectApiError(response, code);
  const isForLater = code === 'RATE_LIMIT_EXCEEDED' || code === 'SERVICE_UNAVAILABLE';
  expect(response.headers.has('retry-after')).toBe(isForLater);
  expect(response.headers.has('allow')).toBe(code === 'METHOD_NOT_ALLOWED');
});

test('each code of the table has a request', () => {
  expect(Object.keys(REQUESTS_BY_CODE).sort()).toEqual(Object.keys(API_ERRORS).sort());
});

test('behind an address with too many wrong keys a valid one passes, in the query or a header', async () => {
  expectApiError(await withWrongKey(), 'AUTH_LIMIT_EXCEEDED');
  expectApiError(await getTopics('?api_key[$ne]='), 'INVALID_API_KEY');
  expectApiError(await getTopics(''), 'INVALID_API_KEY');
  const bearer = (key: string) => getTopics('', { authorization: `Bearer ${key}` });
  expect((await getTopics(`?api_key=${stack.dev.apiKey}`)).status).toBe(200);
  expect((await bearer(stack.dev.apiKey)).status).toBe(200);
  expect((await bearer(WRONG_KEY)).status).toBe(403);
  // A client does not get another address by a header: no trusted proxy is in front.
  const elsewhere = { 'x-forwarded-for': '203.0.113.7' };
  const refused = await getTopics(`?api_key=${WRONG_KEY}-`, elsewhere);
  expectApiError(refused, 'AUTH_LIMIT_EXCEEDED');
});
