import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { AppSettings } from '../../packages/store/src/apps.ts';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { callWithoutKey, postWithoutKey } from '../support/api/keyless-calls.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import { createTestTenant, withStore } from '../support/api/tenants.ts';
import { type Stack, startStack } from '../support/stack.ts';

const WRONG = 'f'.repeat(64);
const ALLOWED_AN_HOUR = 100;

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ ...ONLY_API, apis: 2 });
});
afterAll(() => stack.stop());

describe('keys from one address', () => {
  const sendRequest = (path: string, headers: Record<string, string> = {}) =>
    callWithoutKey(stack.dev.api, path, { headers });

  test('100 wrong ones an hour get 403, the next is limited; a valid one passes', async () => {
    for (let i = 0; i < ALLOWED_AN_HOUR; i += 1) {
      expectApiError(await sendRequest(`/topics?api_key=${WRONG}${i}`), 'INVALID_API_KEY');
    }
    expectApiError(await sendRequest(`/topics?api_key=${WRONG}`), 'AUTH_LIMIT_EXCEEDED');
    expectApiError(await sendRequest('/topics?api_key[$ne]='), 'INVALID_API_KEY');
    expect((await sendRequest(`/topics?api_key=${stack.dev.apiKey}`)).status).toBe(200);
    // A client does not get another address by a header: no trusted proxy is in front.
    const elsewhere = { 'x-forwarded-for': '203.0.113.7' };
    expectApiError(await sendRequest(`/topics?api_key=${WRONG}`, elsewhere), 'AUTH_LIMIT_EXCEEDED');
  });

  test('a key in the header counts as well as one in the query', async () => {
    const bearer = (key: string) => sendRequest('/topics', { authorization: `Bearer ${key}` });
    expect((await bearer(stack.dev.apiKey)).status).toBe(200);
    expect((await bearer(WRONG)).status).toBe(403);
    expectApiError(await sendRequest('/topics'), 'INVALID_API_KEY');
  });
});

describe('new devices', () => {
  const register = (app: string) =>
    postWithoutKey<{ token?: string }>(stack.dev.api, '/register', {
      appId: app,
      platform: 'electron',
    });

  test('register as often an hour as the app allows, and never while it is closed', async () => {
    const { app } = await createTestTenant(stack);
    const set = (settings: AppSettings) =>
      withStore(stack, (store) => store.apps.updateSettings(app, settings));
    await set({ registrationsPerHour: 2 });
    expect((await register(app)).status).toBe(200);
    expect((await register(app)).status).toBe(200);
    const refused = await register(app);
    expectApiError(refused, 'RATE_LIMIT_EXCEEDED');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    await set({ registrationsPerHour: null });
    expect((await register(app)).status).toBe(200);
    await set({ registrationClosed: true });
    expectApiError(await register(app), 'REGISTRATION_CLOSED');
    await set({ registrationClosed: false });
    expect((await register(app)).status).toBe(200);
  });

  test('checking credentials is never limited', async () => {
    const body = { token: 'a6345d0278adc55d3474f5', auth: '0'.repeat(64) };
    const responses = await Promise.all(
      Array.from({ length: 300 }, () => postWithoutKey(stack.dev.api, '/devices/auth', body)),
    );
    for (const response of responses) expectApiError(response, 'INVALID_DEVICE_AUTH');
  });
});
