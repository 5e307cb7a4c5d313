import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { callWithoutKey } from '../support/api/keyless-calls.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import { createTestTenant, withStore } from '../support/api/tenants.ts';
import { type Stack, startStack } from '../support/stack.ts';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack(ONLY_API);
  const { app: withoutKeys } = await createTestTenant(stack);
  await withStore(stack, async ({ apps }) => {
    await apps.updateSettings(stack.dev.app, { webHosts: ['www.example.com'] });
    await apps.updateSettings(withoutKeys, { webHosts: ['bare.example.com'] });
  });
});
afterAll(() => stack?.stop());

const sendRequest = (query: string) =>
  callWithoutKey(stack.dev.api, `/web-push/public-key${query}`);

describe('a page that requests the public key', () => {
  test.each([
    ['?appId=ffffffffffffffffffffffff', 'INVALID_APP_ID'],
    ['?app=unknown.example', 'INVALID_APP_ID'],
    ['', 'INVALID_PARAM'],
    ['?appId=F00', 'INVALID_PARAM'],
    ['?app=', 'INVALID_PARAM'],
    ['?app=a.example&app=b.example', 'INVALID_PARAM'],
    ['?app=bare.example.com', 'NO_WEB_PUSH_AUTH'],
  ] as const)('%p is refused', async (query, code) => {
    const response = await sendRequest(query);
    expectApiError(response, code);
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
  });

  test.each(['appId', 'app'])('gets it by %s, whatever its own origin', async (name) => {
    const value = name === 'app' ? 'www.example.com' : stack.dev.app;
    const { status, json, headers } = await sendRequest(`?${name}=${value}`);
    // An uncompressed point of 65 bytes.
    expect([status, json]).toEqual([200, { publicKey: expect.stringMatching(/^B[\w-]{86}$/) }]);
    expect(headers.get('access-control-allow-origin')).toBe('*');
  });
});
