import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ONLY_API } from '../support/api/only-api.ts';
import { expectRefusal } from '../support/api/refusals.ts';
import { newTenant, type TestTenant } from '../support/api/tenants.ts';
import { startUnlimited } from '../support/guarantees/start-unlimited.ts';
import { registerDevice } from '../support/register-device.ts';
import type { Stack } from '../support/stack.ts';
import { send } from '../support/thread/pushes.ts';

const ABSENT_TOKEN = 'f'.repeat(22);
const ABSENT_PUSH = 'f'.repeat(24);

let stack: Stack;
let stranger: TestTenant;
let own: string;
/** Of the stack's first app. */
let foreign: { token: string; push: string; scheduled: string };
beforeAll(async () => {
  stack = await startUnlimited(ONLY_API);
  stranger = await newTenant(stack);
  ({ token: own } = await registerDevice(stranger.dev));
  const { token } = await registerDevice(stack.dev);
  await stack.api('POST', '/topics/subscribe', { token, topics: ['secret'] });
  const { id: push } = await send(stack, token);
  const schedule = Math.floor(Date.now() / 1_000) + 3_600;
  const { id: scheduled } = await send(stack, token, { schedule });
  foreign = { token, push, scheduled };
});
afterAll(() => stack?.stop());

/** What isn't the caller's is answered, byte for byte, as what isn't there. */
async function expectTheSame(
  method: string,
  [foreignPath, absentPath]: [string, string],
  [foreignBody, absentBody]: [unknown, unknown] = [undefined, undefined],
) {
  const there = await stranger.api(method, foreignPath, foreignBody);
  const absent = await stranger.api(method, absentPath, absentBody);
  expect(there.text).toBe(absent.text);
  expect(there.status).toBe(absent.status);
  return there;
}

describe('of another app', () => {
  test.each(['GET', 'DELETE'])('%s /pushes: a push is as if absent', async (method) => {
    for (const push of [foreign.push, foreign.scheduled]) {
      const paths: [string, string] = [`/pushes/${push}`, `/pushes/${ABSENT_PUSH}`];
      expectRefusal(await expectTheSame(method, paths), 'INVALID_PUSH_ID');
    }
    expect((await stack.api('GET', `/pushes/${foreign.push}`)).status).toBe(200);
  });

  test('GET /devices: a device is told as such and nothing more', async () => {
    expectRefusal(await stranger.api('GET', `/devices/${foreign.token}`), 'APP_MISMATCH');
  });

  test('POST /push: a device is not found', async () => {
    const bodies = [foreign.token, ABSENT_TOKEN].map((to) => ({ to, data: {} }));
    const paths: [string, string] = ['/push', '/push'];
    const answer = await expectTheSame('POST', paths, [bodies[0], bodies[1]]);
    expectRefusal(answer, 'NO_RECIPIENTS');
    const { info } = await send(stranger, [own, foreign.token]);
    expect(info).toEqual({ devices: 1, failed: [foreign.token] });
  });

  test('POST /push and GET /topics: a topic has no subscribers', async () => {
    const push = await stranger.api('POST', '/push', { to: '/topics/secret', data: {} });
    expectRefusal(push, 'NO_RECIPIENTS');
    expect((await stranger.api('GET', '/topics/secret')).json).toEqual({ subscribers: [] });
    expect((await stranger.api('GET', '/topics')).json).toEqual({ topics: [] });
  });

  test('POST /devices/presence: a device is left out', async () => {
    const ask = (...tokens: string[]) => stranger.api('POST', '/devices/presence', { tokens });
    expectRefusal(await ask(foreign.token), 'NO_RESULTS');
    expect((await ask(own, foreign.token)).json).toMatchObject({ presence: [{ id: own }] });
  });

  test.each([
    '/topics/subscribe',
    '/topics/unsubscribe',
    '/devices/subscribe',
    '/devices/unsubscribe',
  ])('POST %s: a device is as if absent', async (path) => {
    const bodies = [foreign.token, ABSENT_TOKEN].map((token) => ({ token, topics: ['secret'] }));
    const answer = await expectTheSame('POST', [path, path], [bodies[0], bodies[1]]);
    expectRefusal(answer, 'INVALID_DEVICE_TOKEN');
    const { json } = await stack.api('GET', '/topics/secret');
    expect(json).toEqual({ subscribers: [foreign.token] });
  });
});
