import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { callPlainly } from '../support/api/calls.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import { expectRefusal } from '../support/api/refusals.ts';
import { asOperator, newTenant } from '../support/api/tenants.ts';
import { type Stack, startStack } from '../support/stack.ts';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack(ONLY_API);
  const { app: withoutKeys } = await newTenant(stack);
  await asOperator(stack, async ({ apps }) => {
    await apps.change(stack.dev.app, { webHosts: ['www.example.com'] });
    await apps.change(withoutKeys, { webHosts: ['bare.example.com'] });
  });
});
afterAll(() => stack?.stop());

const ask = (query: string) => callPlainly(stack.dev.api, `/web-push/public-key${query}`);

describe('a page that asks for the public key', () => {
  test.each([
    ['?appId=ffffffffffffffffffffffff', 'INVALID_APP_ID'],
    ['?app=unknown.example', 'INVALID_APP_ID'],
    ['', 'INVALID_PARAM'],
    ['?appId=F00', 'INVALID_PARAM'],
    ['?app=', 'INVALID_PARAM'],
    ['?app=a.example&app=b.example', 'INVALID_PARAM'],
    ['?app=bare.example.com', 'NO_WEB_PUSH_AUTH'],
  ] as const)('%p is refused', async (query, code) => {
    const answer = await ask(query);
    expectRefusal(answer, code);
    expect(answer.headers.get('access-control-allow-origin')).toBe('*');
  });

  test.each(['appId', 'app'])('gets it by %s, whatever its own origin', async (name) => {
    const value = name === 'app' ? 'www.example.com' : stack.dev.app;
    const { status, json, headers } = await ask(`?${name}=${value}`);
    // An uncompressed point of 65 bytes.
    expect([status, json]).toEqual([200, { publicKey: expect.stringMatching(/^B[\w-]{86}$/) }]);
    expect(headers.get('access-control-allow-origin')).toBe('*');
  });
});
