import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { createKey, createTestTenant, type TestTenant, withStore } from '../support/api/tenants.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { expectWithin } from '../support/lag.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import { callApi } from '../support/stack/call-api.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const LONGEST_WINDOW_SECONDS = 60;
/** How long an API process may use its cache of a key. */
const CACHED_MS = 10_000;
const POLL_OPTIONS = { everyMs: 200 };

let stack: Stack;
/** Changes that an API process applies only after some seconds, because it caches; the tests wait for all at once. */
let changes: Record<'limitLifted' | 'accountSuspended' | 'keyRotated', Promise<void>>;
beforeAll(async () => {
  stack = await useKillableStack();
  changes = {
    limitLifted: liftLimit(),
    accountSuspended: suspendAndResume(),
    keyRotated: rotateKey(),
  };
  // Its own test reports its failure.
  for (const checked of Object.values(changes)) checked.catch(() => undefined);
  // A frozen Redis and hundreds of requests at once are for later.
  await Promise.allSettled(Object.values(changes));
});
afterAll(() => stack?.stop());

/** Sends so many requests, some at once. Returns the statuses. */
async function requestTimes({ api }: Pick<TestTenant, 'api'>, times: number): Promise<number[]> {
  const statuses: number[] = [];
  let left = times;
  const sendRequest = async () => {
    for (; left > 0; ) {
      left -= 1;
      statuses.push((await api('GET', '/topics')).status);
    }
  };
  await Promise.all(Array.from({ length: 20 }, sendRequest));
  return statuses;
}

function countStatus(statuses: readonly number[], status: number): number {
  return statuses.filter((one) => one === status).length;
}

describe('requests a minute, over all processes together', () => {
  test('60 of a trial account pass and no more', async () => {
    const statuses = await requestTimes(await createTestTenant(stack, { plan: 'trial' }), 70);
    expect([countStatus(statuses, 200), countStatus(statuses, 429)]).toEqual([60, 10]);
  });

  test('800 of a pro account pass and no more', async () => {
    const statuses = await requestTimes(await createTestTenant(stack), 810);
    expect([countStatus(statuses, 200), countStatus(statuses, 429)]).toEqual([800, 10]);
  });

  test('both apps of an account share them', async () => {
    const tenant = await createTestTenant(stack, { limit: 3 });
    const other = await withStore(stack, async (store) =>
      createKey(stack, store, await store.apps.create('Second', tenant.account)),
    );
    await requestTimes(tenant, 3);
    expectApiError(
      await callApi({ ...stack.dev, apiKey: other.apiKey }, 'GET', '/topics'),
      'RATE_LIMIT_EXCEEDED',
    );
  });

  test('a response has the remaining requests, and a 429 the time to wait', async () => {
    const { api } = await createTestTenant(stack, { limit: 2 });
    const { headers } = await api('GET', '/topics');
    expect(headers.get('ratelimit-limit')).toBe('2');
    expect(headers.get('ratelimit-remaining')).toBe('1');
    expect(Number(headers.get('ratelimit-reset'))).toBeLessThanOrEqual(LONGEST_WINDOW_SECONDS);
    await api('GET', '/topics');
    const refused = await api('GET', '/topics');
    expectApiError(refused, 'RATE_LIMIT_EXCEEDED');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(LONGEST_WINDOW_SECONDS);
  });

  test('an operator can lift the limit', () => changes.limitLifted);

  test('a frozen Redis delays no request for long, and each process continues to count', async () => {
    const tenant = await createTestTenant(stack, { limit: 20 });
    await requestTimes(tenant, 1);
    const statuses = await whileFrozen(stack, [{ service: 'redis' }], () =>
      requestTimes(tenant, 60),
    );
    // Two processes, each of which may let the whole limit pass.
    expect(countStatus(statuses, 200)).toBeGreaterThanOrEqual(19);
    expect(countStatus(statuses, 200)).toBeLessThanOrEqual(40);
    expect(countStatus(statuses, 200) + countStatus(statuses, 429)).toBe(60);
  });
});

describe('keys and accounts', () => {
  test('a suspended account is refused within 10 s, and accepted after it is resumed', () =>
    changes.accountSuspended);

  test('a key is rotated: both work, then only the new one', () => changes.keyRotated);
});

async function liftLimit(): Promise<void> {
  const tenant = await createTestTenant(stack, { limit: 1 });
  await requestTimes(tenant, 2);
  await withStore(stack, (store) => store.accounts.limit(tenant.account, null));
  // Each process reads the new limit when its own copy of the account expires.
  const areAccepted = async () => countStatus(await requestTimes(tenant, 50), 200) === 50;
  await expectWithin(CACHED_MS, until(areAccepted, POLL_OPTIONS));
}

async function suspendAndResume(): Promise<void> {
  const tenant = await createTestTenant(stack);
  await tenant.api('GET', '/topics');
  await withStore(stack, (store) => store.accounts.suspend(tenant.account));
  expectApiError(await untilRefused(tenant), 'ACCOUNT_SUSPENDED');
  await withStore(stack, (store) => store.accounts.resume(tenant.account));
  const isAccepted = async () => (await tenant.api('GET', '/topics')).status === 200;
  await expectWithin(CACHED_MS, until(isAccepted, POLL_OPTIONS));
}

async function rotateKey(): Promise<void> {
  const tenant = await createTestTenant(stack);
  const { apiKey } = await withStore(stack, (store) => createKey(stack, store, tenant.app));
  const fresh = { ...tenant.dev, apiKey };
  expect((await callApi(fresh, 'GET', '/topics')).status).toBe(200);
  expect((await tenant.api('GET', '/topics')).status).toBe(200);
  await withStore(stack, (store) => store.keys.revoke(tenant.keyId));
  expectApiError(await untilRefused(tenant), 'INVALID_API_KEY');
  expect((await callApi(fresh, 'GET', '/topics')).status).toBe(200);
}

async function untilRefused({ api }: Pick<TestTenant, 'api'>) {
  const refused = until(async () => {
    const response = await api('GET', '/topics');
    return response.status === 403 && response;
  }, POLL_OPTIONS);
  return expectWithin(CACHED_MS, refused);
}
