import { beforeAll, describe, expect, test } from '@jest/globals';
import { LIMITS } from '../../packages/core/src/limits.ts';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { postWithoutKey } from '../support/api/keyless-calls.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { type Credentials, registerDevice } from '../support/register-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

const MAX_TOPICS = 1_000;
const TOPICS_PER_CALL = LIMITS.topicsPerSubscribe;

let stack: SharedStack;
let tenant: TestTenant;
beforeAll(async () => {
  stack = await useSharedStack();
  tenant = await createTestTenant(stack, { limit: null });
});

const topicNames = (from: number, count: number = TOPICS_PER_CALL) =>
  Array.from({ length: count }, (_, n) => `topic-${from + n}`);
const subscribeAsDevice = (device: Credentials, topics: string[], verb = 'subscribe') =>
  postWithoutKey(stack.dev.api, `/devices/${verb}`, { ...device, topics });
const subscribeAsBackend = ({ token }: Credentials, topics: string[]) =>
  tenant.api('POST', '/topics/subscribe', { token, topics });
const topicsOf = async ({ token }: Credentials) =>
  (await tenant.api<{ subscriptions: string[] }>('GET', `/devices/${token}`)).json.subscriptions;

describe('1,000 topics a device', () => {
  test.each([
    ['the device itself', subscribeAsDevice],
    ['its backend', subscribeAsBackend],
  ])('and not one more by %s', async (_who, subscribe) => {
    const device = await registerDevice(tenant.dev);
    for (let from = 0; from < MAX_TOPICS; from += TOPICS_PER_CALL) {
      expect((await subscribe(device, topicNames(from))).status).toBe(200);
    }
    const refused = await subscribe(device, topicNames(MAX_TOPICS, 1));
    expectApiError(refused, 'INVALID_PARAM');
    expect(refused.json.error).toMatch(/1,000 topics/);
    // Its own topics may be named again, and an unsubscribe makes room.
    expect((await subscribe(device, topicNames(0))).status).toBe(200);
    expect((await subscribeAsDevice(device, topicNames(0, 1), 'unsubscribe')).status).toBe(200);
    expect((await subscribe(device, topicNames(MAX_TOPICS, 1))).status).toBe(200);
    expect(await topicsOf(device)).toHaveLength(MAX_TOPICS);
  });

  test('and not one more by many calls at once', async () => {
    const device = await registerDevice(tenant.dev);
    const calls = Array.from({ length: 30 }, (_, n) =>
      subscribeAsBackend(device, topicNames(n * TOPICS_PER_CALL)),
    );
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(MAX_TOPICS / TOPICS_PER_CALL);
    expect(await topicsOf(device)).toHaveLength(MAX_TOPICS);
  });
});

describe('changes of topics by a device', () => {
  test('are limited by the device, and delay no other behind the same address', async () => {
    const [attacker, victim] = [await registerDevice(tenant.dev), await registerDevice(tenant.dev)];
    const statuses: number[] = [];
    for (let i = 0; i < 100; i += 1) {
      const verb = i % 2 === 0 ? 'subscribe' : 'unsubscribe';
      const response = await subscribeAsDevice(attacker, ['news'], verb);
      statuses.push(response.status);
      if (response.status !== 429) continue;
      expectApiError(response, 'RATE_LIMIT_EXCEEDED');
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    }
    expect(statuses.filter((status) => status === 200)).toHaveLength(
      LIMITS.topicChangesPerDeviceMinute,
    );
    expect((await subscribeAsDevice(victim, ['news'])).status).toBe(200);
    expect((await subscribeAsBackend(attacker, ['news'])).status).toBe(200);
  });

  test('are not used up by requests without the auth key', async () => {
    const device = await registerDevice(tenant.dev);
    const forged = { ...device, auth: '0'.repeat(64) };
    for (let i = 0; i < 100; i += 1) {
      expectApiError(await subscribeAsDevice(forged, ['news']), 'INVALID_DEVICE_AUTH');
    }
    expect((await subscribeAsDevice(device, ['news'])).status).toBe(200);
  });
});
