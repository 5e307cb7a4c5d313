import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { API_ERRORS, type ApiErrorCode } from '../../packages/core/src/api-error.ts';
import { callPlainly, postPlainly } from '../support/api/calls.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import { appleAddress } from '../support/api/provider-addresses.ts';
import { expectRefusal } from '../support/api/refusals.ts';
import { asOperator, newTenant, type TestTenant } from '../support/api/tenants.ts';
import { whileHeld } from '../support/guarantees/hold.ts';
import { registerDevice } from '../support/register-device.ts';
import type { ApiAnswer } from '../support/stack/call-api.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { send } from '../support/thread/pushes.ts';

const ABSENT = 'f'.repeat(24);
const WRONG_KEY = 'f'.repeat(64);
const WRONG_KEYS_AN_HOUR = 100;

let stack: Stack;
let tenant: TestTenant;
let other: TestTenant;
let token: string;
beforeAll(async () => {
  stack = await startStack(ONLY_API);
  tenant = await newTenant(stack, { limit: null });
  other = await newTenant(stack, { limit: 1 });
  ({ token } = await registerDevice(tenant.dev));
});
afterAll(() => stack?.stop());

const push = (fields: object) => tenant.api('POST', '/push', { to: token, data: {}, ...fields });
const post = (path: string, body: unknown) => postPlainly(stack.dev.api, path, body);
const withWrongKey = () => callPlainly(stack.dev.api, `/topics?api_key=${WRONG_KEY}`);
const inAnHour = () => Math.floor(Date.now() / 1_000) + 3_600;

/** How each error comes about, in this order: the wrong keys of the last ones would be in the way. */
const WAYS: Record<ApiErrorCode, () => Promise<ApiAnswer<object>>> = {
  INVALID_PARAM: () => push({ time_to_live: -1 }),
  NO_RECIPIENTS: () => push({ to: 'unknown' }),
  async NO_APNS_AUTH() {
    const body = { appId: tenant.app, platform: 'ios', ...appleAddress() };
    const { json } = await postPlainly<{ token: string }>(stack.dev.api, '/register', body);
    return push({ to: json.token });
  },
  NO_WEB_PUSH_AUTH: () => callPlainly(stack.dev.api, `/web-push/public-key?appId=${tenant.app}`),
  PAYLOAD_LIMIT_EXCEEDED: () => push({ data: { a: 'x'.repeat(4_096) } }),
  INVALID_PUSH_ID: () => tenant.api('GET', `/pushes/${ABSENT}`),
  async PUSH_SCHEDULED() {
    const { id } = await send(tenant, token, { schedule: inAnHour() });
    return tenant.api('GET', `/pushes/${id}`);
  },
  async APP_MISMATCH() {
    const { token: foreign } = await registerDevice(stack.dev);
    return tenant.api('GET', `/devices/${foreign}`);
  },
  INVALID_DEVICE_TOKEN: () => tenant.api('GET', '/devices/unknown'),
  INVALID_DEVICE_AUTH: () => post('/devices/auth', { token, auth: 'wrong' }),
  INVALID_APP_ID: () => post('/register', { appId: ABSENT, platform: 'electron' }),
  NO_RESULTS: () => tenant.api('POST', '/devices/presence', { tokens: ['unknown'] }),
  INVALID_API_KEY: withWrongKey,
  async AUTH_LIMIT_EXCEEDED() {
    for (let i = 0; i < WRONG_KEYS_AN_HOUR; i += 1) await withWrongKey();
    return withWrongKey();
  },
  async ACCOUNT_SUSPENDED() {
    const suspended = await newTenant(stack);
    await asOperator(stack, ({ accounts }) => accounts.suspend(suspended.account));
    return suspended.api('GET', '/topics');
  },
  async REGISTRATION_CLOSED() {
    const { app } = await newTenant(stack);
    await asOperator(stack, ({ apps }) => apps.change(app, { registrationClosed: true }));
    return post('/register', { appId: app, platform: 'electron' });
  },
  NOT_FOUND: () => tenant.api('GET', '/nothing'),
  METHOD_NOT_ALLOWED: () => tenant.api('PUT', '/push', {}),
  BODY_TOO_LARGE: () => post('/devices/auth', { token: 'x'.repeat(100_000) }),
  UNSUPPORTED_MEDIA_TYPE: () =>
    callPlainly(stack.dev.api, `/push?api_key=${tenant.apiKey}`, { method: 'POST', body: 'a=1' }),
  HEADERS_TOO_LARGE: () =>
    callPlainly(stack.dev.api, '/topics', { headers: { 'x-large': 'x'.repeat(20_000) } }),
  async RATE_LIMIT_EXCEEDED() {
    await other.api('GET', '/topics');
    return other.api('GET', '/topics');
  },
  INTERNAL_SERVER_ERROR: () =>
    whileHeld(stack, [{ service: 'mongodb' }], () => tenant.api('GET', '/topics')),
  SERVICE_UNAVAILABLE: () => post('/register', { appId: tenant.app, platform: 'electron' }),
};

test.each(Object.keys(WAYS) as ApiErrorCode[])('%s', async (code) => {
  const answer = await WAYS[code]();
  expectRefusal(answer, code);
  const isForLater = code === 'RATE_LIMIT_EXCEEDED' || code === 'SERVICE_UNAVAILABLE';
  expect(answer.headers.has('retry-after')).toBe(isForLater);
  expect(answer.headers.has('allow')).toBe(code === 'METHOD_NOT_ALLOWED');
});

test('there is a way for each code of the table', () => {
  expect(Object.keys(WAYS).sort()).toEqual(Object.keys(API_ERRORS).sort());
});
