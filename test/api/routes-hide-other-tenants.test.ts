import { beforeAll, describe, expect, test } from '@jest/globals';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { registerDevice } from '../support/register-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

const ABSENT_TOKEN = 'f'.repeat(22);
const ABSENT_PUSH = 'f'.repeat(24);

let stack: SharedStack;
let otherTenant: TestTenant;
let ownToken: string;
/** Of the stack's first app. */
let foreign: { token: string; push: string; scheduled: string };
beforeAll(async () => {
  stack = await useSharedStack();
  otherTenant = await createTestTenant(stack);
  ({ token: ownToken } = await registerDevice(otherTenant.dev));
  const { token } = await registerDevice(stack.dev);
  await stack.api('POST', '/topics/subscribe', { token, topics: ['secret'] });
  const { id: push } = await send(stack, token);
  const schedule = Math.floor(Date.now() / 1_000) + 3_600;
  const { id: scheduled } = await send(stack, token, { schedule });
  foreign = { token, push, scheduled };
});

/** Expects the same response, byte for byte, for a resource of another tenant and for one that does not exist. */
async function expectSameResponse(
  method: string,
  [foreignPath, absentPath]: [string, string],
  [foreignBody, absentBody]: [unknown, unknown] = [undefined, undefined],
) {
  const there = await otherTenant.api(method, foreignPath, foreignBody);
  const absent = await otherTenant.api(method, absentPath, absentBody);
  expect(there.text).toBe(absent.text);
  expect(there.status).toBe(absent.status);
  return there;
}

describe('of another app', () => {
  test.each(['GET', 'DELETE'])('%s /pushes: a push appears absent', async (method) => {
    for (const push of [foreign.push, foreign.scheduled]) {
      const paths: [string, string] = [`/pushes/${push}`, `/pushes/${ABSENT_PUSH}`];
      expectApiError(await expectSameResponse(method, paths), 'INVALID_PUSH_ID');
    }
    expect((await stack.api('GET', `/pushes/${foreign.push}`)).status).toBe(200);
  });

  test.each(['outcomes', 'recipients', `recipients/${ABSENT_TOKEN}`])(
    'GET /pushes/:id/%s: a push appears absent',
    async (what) => {
      for (const push of [foreign.push, foreign.scheduled]) {
        const paths: [string, string] = [
          `/pushes/${push}/${what}`,
          `/pushes/${ABSENT_PUSH}/${what}`,
        ];
        expectApiError(await expectSameResponse('GET', paths), 'INVALID_PUSH_ID');
      }
      const path = `/pushes/${foreign.push}/recipients/${foreign.token}`;
      expectApiError(await otherTenant.api('GET', path), 'INVALID_PUSH_ID');
      expect((await stack.api('GET', path)).status).toBe(200);
    },
  );

  test('GET /pushes: a push is not listed', async () => {
    const own = await send(otherTenant, ownToken);
    const { json } = await otherTenant.api<{ pushes: { id: string }[] }>('GET', '/pushes');
    expect(json.pushes.map(({ id }) => id)).toContain(own.id);
    expect(JSON.stringify(json)).not.toContain(foreign.push);
  });

  test('GET /devices: a device is reported as that of another app, and nothing more', async () => {
    expectApiError(await otherTenant.api('GET', `/devices/${foreign.token}`), 'APP_MISMATCH');
  });

  test('POST /push: a device is not found', async () => {
    const bodies = [foreign.token, ABSENT_TOKEN].map((to) => ({ to, data: {} }));
    const paths: [string, string] = ['/push', '/push'];
    const response = await expectSameResponse('POST', paths, [bodies[0], bodies[1]]);
    expectApiError(response, 'NO_RECIPIENTS');
    const { info } = await send(otherTenant, [ownToken, foreign.token]);
    expect(info).toEqual({ devices: 1, failed: [foreign.token] });
  });

  test('POST /push and GET /topics: a topic has no subscribers', async () => {
    const push = await otherTenant.api('POST', '/push', { to: '/topics/secret', data: {} });
    expectApiError(push, 'NO_RECIPIENTS');
    expect((await otherTenant.api('GET', '/topics/secret')).json).toEqual({ subscribers: [] });
    expect((await otherTenant.api('GET', '/topics')).json).toEqual({ topics: [] });
  });

  test('POST /devices/presence: a device is left out', async () => {
    const sendRequest = (...tokens: string[]) =>
      otherTenant.api('POST', '/devices/presence', { tokens });
    expectApiError(await sendRequest(foreign.token), 'NO_RESULTS');
    expect((await sendRequest(ownToken, foreign.token)).json).toMatchObject({
      presence: [{ id: ownToken }],
    });
  });

  test.each([
    '/topics/subscribe',
    '/topics/unsubscribe',
    '/devices/subscribe',
    '/devices/unsubscribe',
  ])('POST %s: a device appears absent', async (path) => {
    const bodies = [foreign.token, ABSENT_TOKEN].map((token) => ({ token, topics: ['secret'] }));
    const response = await expectSameResponse('POST', [path, path], [bodies[0], bodies[1]]);
    expectApiError(response, 'INVALID_DEVICE_TOKEN');
    const { json } = await stack.api('GET', '/topics/secret');
    expect(json).toEqual({ subscribers: [foreign.token] });
  });
});
