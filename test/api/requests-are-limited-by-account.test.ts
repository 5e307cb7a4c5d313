import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ONLY_API } from '../support/api/only-api.ts';
import { expectRefusal } from '../support/api/refusals.ts';
import { asOperator, newKey, newTenant, type TestTenant } from '../support/api/tenants.ts';
import { whileHeld } from '../support/guarantees/hold.ts';
import { callApi } from '../support/stack/call-api.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const LONGEST_WINDOW_SECONDS = 60;
/** How long an API process may go by what it knows of a key. */
const WITHIN = { timeoutMs: 10_000, everyMs: 200 };

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ ...ONLY_API, apis: 2 });
});
afterAll(() => stack.stop());

/** Asks so often, some at once, and gives the statuses. */
async function askTimes({ api }: Pick<TestTenant, 'api'>, times: number): Promise<number[]> {
  const statuses: number[] = [];
  let left = times;
  const ask = async () => {
    for (; left > 0; ) {
      left -= 1;
      statuses.push((await api('GET', '/topics')).status);
    }
  };
  await Promise.all(Array.from({ length: 20 }, ask));
  return statuses;
}

function countOf(statuses: readonly number[], status: number): number {
  return statuses.filter((one) => one === status).length;
}

describe('requests a minute, over all processes together', () => {
  test('60 of a trial account pass and no more', async () => {
    const statuses = await askTimes(await newTenant(stack, { plan: 'trial' }), 70);
    expect([countOf(statuses, 200), countOf(statuses, 429)]).toEqual([60, 10]);
  });

  test('800 of a pro account pass and no more', async () => {
    const statuses = await askTimes(await newTenant(stack), 810);
    expect([countOf(statuses, 200), countOf(statuses, 429)]).toEqual([800, 10]);
  });

  test('both apps of an account share them', async () => {
    const tenant = await newTenant(stack, { limit: 3 });
    const other = await asOperator(stack, async (store) =>
      newKey(stack, store, await store.apps.create('Second', tenant.account)),
    );
    await askTimes(tenant, 3);
    expectRefusal(
      await callApi({ ...stack.dev, apiKey: other.apiKey }, 'GET', '/topics'),
      'RATE_LIMIT_EXCEEDED',
    );
  });

  test('an answer tells where the account stands, and a refusal when to come again', async () => {
    const { api } = await newTenant(stack, { limit: 2 });
    const { headers } = await api('GET', '/topics');
    expect(headers.get('ratelimit-limit')).toBe('2');
    expect(headers.get('ratelimit-remaining')).toBe('1');
    expect(Number(headers.get('ratelimit-reset'))).toBeLessThanOrEqual(LONGEST_WINDOW_SECONDS);
    await api('GET', '/topics');
    const refused = await api('GET', '/topics');
    expectRefusal(refused, 'RATE_LIMIT_EXCEEDED');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(LONGEST_WINDOW_SECONDS);
  });

  test('an operator can lift the limit', async () => {
    const tenant = await newTenant(stack, { limit: 1 });
    await askTimes(tenant, 2);
    await asOperator(stack, (store) => store.accounts.limit(tenant.account, null));
    await until(async () => (await tenant.api('GET', '/topics')).status === 200, WITHIN);
    expect(countOf(await askTimes(tenant, 50), 200)).toBe(50);
  });

  test('a frozen Redis delays nobody for long, and each process goes on counting', async () => {
    const tenant = await newTenant(stack, { limit: 20 });
    await askTimes(tenant, 1);
    const statuses = await whileHeld(stack, [{ service: 'redis' }], () => askTimes(tenant, 60));
    // Two processes, each of which may let the whole limit pass.
    expect(countOf(statuses, 200)).toBeGreaterThanOrEqual(19);
    expect(countOf(statuses, 200)).toBeLessThanOrEqual(40);
    expect(countOf(statuses, 200) + countOf(statuses, 429)).toBe(60);
  });
});

describe('keys and accounts', () => {
  test('a suspended account is refused within 10 s, and welcome again', async () => {
    const tenant = await newTenant(stack);
    await tenant.api('GET', '/topics');
    await asOperator(stack, (store) => store.accounts.suspend(tenant.account));
    const refused = await until(async () => {
      const answer = await tenant.api('GET', '/topics');
      return answer.status === 403 && answer;
    }, WITHIN);
    expectRefusal(refused, 'ACCOUNT_SUSPENDED');
    await asOperator(stack, (store) => store.accounts.resume(tenant.account));
    await until(async () => (await tenant.api('GET', '/topics')).status === 200, WITHIN);
  });

  test('a key is rotated: both work, then only the new one', async () => {
    const tenant = await newTenant(stack);
    const { apiKey } = await asOperator(stack, (store) => newKey(stack, store, tenant.app));
    const fresh = { ...tenant.dev, apiKey };
    expect((await callApi(fresh, 'GET', '/topics')).status).toBe(200);
    expect((await tenant.api('GET', '/topics')).status).toBe(200);
    await asOperator(stack, (store) => store.keys.revoke(tenant.keyId));
    const refused = await until(async () => {
      const answer = await tenant.api('GET', '/topics');
      return answer.status === 403 && answer;
    }, WITHIN);
    expectRefusal(refused, 'INVALID_API_KEY');
    expect((await callApi(fresh, 'GET', '/topics')).status).toBe(200);
  });
});
