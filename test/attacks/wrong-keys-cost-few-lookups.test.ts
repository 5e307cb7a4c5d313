import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { newApiKey } from '../../packages/core/src/ids.ts';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { callWithoutKey } from '../support/api/keyless-calls.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import { createTestTenant } from '../support/api/tenants.ts';
import { apiOperationsDuring } from '../support/attacks/mongo-operations.ts';
import { createTopicCalls } from '../support/guarantees/topic-calls.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type Stack, startStack } from '../support/stack.ts';

const ALLOWED_AN_HOUR = 100;
const A_SECOND = 4;

let stack: Stack;
let mongo: TestMongo;
const { inParallel } = createTopicCalls(() => stack);
beforeAll(async () => {
  stack = await startStack(ONLY_API);
  mongo = await openMongo(stack.dev);
  await inParallel(ALLOWED_AN_HOUR + 1, 20, () => sendRequest(newApiKey()));
});
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
});

const sendRequest = (key: string) => callWithoutKey(stack.dev.api, `/topics?api_key=${key}`);
const countLookups = (operations: readonly string[]) =>
  operations.filter((operation) => operation === 'command keys').length;

test('300 wrong keys above the limit share a few lookups a second', async () => {
  const startedAt = performance.now();
  const { operations } = await apiOperationsDuring(mongo, () =>
    inParallel(300, 50, async () =>
      expectApiError(await sendRequest(newApiKey()), 'AUTH_LIMIT_EXCEEDED'),
    ),
  );
  const seconds = (performance.now() - startedAt) / 1_000;
  expect(countLookups(operations)).toBeLessThanOrEqual(A_SECOND * seconds + 1);
});

test('a valid key behind the same address passes meanwhile, cached or not', async () => {
  const known = await createTestTenant(stack);
  expect((await sendRequest(known.apiKey)).status).toBe(200);
  let isOver = false;
  const attack = inParallel(100, 100, async () => {
    while (!isOver) await sendRequest(newApiKey());
  });
  for (let round = 0; round < 5; round += 1) {
    const fresh = await createTestTenant(stack);
    const startedAt = performance.now();
    expect((await sendRequest(fresh.apiKey)).status).toBe(200);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    expect((await sendRequest(known.apiKey)).status).toBe(200);
  }
  isOver = true;
  await attack;
});

test('11,000 wrong keys evict no valid key from the cache', async () => {
  const good = await createTestTenant(stack);
  expect((await sendRequest(good.apiKey)).status).toBe(200);
  const { operations } = await apiOperationsDuring(mongo, async () => {
    let left = 11_000;
    await inParallel(200, 200, async () => {
      for (; left > 0; left -= 1) await sendRequest(newApiKey());
    });
    expect((await sendRequest(good.apiKey)).status).toBe(200);
  });
  // An attacker that flushed the cache would cause one lookup for each request, its own and those of others.
  expect(countLookups(operations)).toBeLessThan(500);
}, 120_000);
