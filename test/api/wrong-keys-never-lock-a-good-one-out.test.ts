import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { AppSettings } from '../../packages/store/src/apps.ts';
import { callPlainly, postPlainly } from '../support/api/calls.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import { expectRefusal } from '../support/api/refusals.ts';
import { asOperator, newTenant } from '../support/api/tenants.ts';
import { type Stack, startStack } from '../support/stack.ts';

const WRONG = 'f'.repeat(64);
const ALLOWED_AN_HOUR = 100;

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ ...ONLY_API, apis: 2 });
});
afterAll(() => stack.stop());

describe('keys from one address', () => {
  const ask = (path: string, headers: Record<string, string> = {}) =>
    callPlainly(stack.dev.api, path, { headers });

  test('100 wrong ones an hour are slips, the next is told so; a good one passes', async () => {
    for (let i = 0; i < ALLOWED_AN_HOUR; i += 1) {
      expectRefusal(await ask(`/topics?api_key=${WRONG}${i}`), 'INVALID_API_KEY');
    }
    expectRefusal(await ask(`/topics?api_key=${WRONG}`), 'AUTH_LIMIT_EXCEEDED');
    expectRefusal(await ask('/topics?api_key[$ne]='), 'INVALID_API_KEY');
    expect((await ask(`/topics?api_key=${stack.dev.apiKey}`)).status).toBe(200);
    // Nobody gets another address by saying so: no proxy of ours stands in front.
    const elsewhere = { 'x-forwarded-for': '203.0.113.7' };
    expectRefusal(await ask(`/topics?api_key=${WRONG}`, elsewhere), 'AUTH_LIMIT_EXCEEDED');
  });

  test('a key in the header counts as well as one in the query', async () => {
    const bearer = (key: string) => ask('/topics', { authorization: `Bearer ${key}` });
    expect((await bearer(stack.dev.apiKey)).status).toBe(200);
    expect((await bearer(WRONG)).status).toBe(403);
    expectRefusal(await ask('/topics'), 'INVALID_API_KEY');
  });
});

describe('new devices', () => {
  const register = (app: string) =>
    postPlainly<{ token?: string }>(stack.dev.api, '/register', {
      appId: app,
      platform: 'electron',
    });

  test('as many an hour as the app allows, and none when it is closed', async () => {
    const { app } = await newTenant(stack);
    const set = (settings: AppSettings) =>
      asOperator(stack, (store) => store.apps.change(app, settings));
    await set({ registrationsPerHour: 2 });
    expect((await register(app)).status).toBe(200);
    expect((await register(app)).status).toBe(200);
    const refused = await register(app);
    expectRefusal(refused, 'RATE_LIMIT_EXCEEDED');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    await set({ registrationsPerHour: null });
    expect((await register(app)).status).toBe(200);
    await set({ registrationClosed: true });
    expectRefusal(await register(app), 'REGISTRATION_CLOSED');
    await set({ registrationClosed: false });
    expect((await register(app)).status).toBe(200);
  });

  test('checking credentials is never limited', async () => {
    const body = { token: 'a6345d0278adc55d3474f5', auth: '0'.repeat(64) };
    const answers = await Promise.all(
      Array.from({ length: 300 }, () => postPlainly(stack.dev.api, '/devices/auth', body)),
    );
    for (const answer of answers) expectRefusal(answer, 'INVALID_DEVICE_AUTH');
  });
});
