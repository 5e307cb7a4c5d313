import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { apiOperationsDuring } from '../support/attacks/mongo-operations.ts';
import { createDevicePool } from '../support/faults/device-pool.ts';
import { createTopicCalls } from '../support/guarantees/topic-calls.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';

const topic = randomUUID();

let stack: Stack;
let mongo: TestMongo;
let tokens: string[];
let foreign: TestTenant;
const { subscribe, pageOf, inParallel, topicsOf } = createTopicCalls(() => stack);
// Not a shared stack: MongoDB records the operations of all requests.
beforeAll(async () => {
  stack = await useKillableStack();
  mongo = await openMongo(stack.dev);
  foreign = await createTestTenant(stack, { limit: null });
  ({ tokens } = await createDevicePool(stack, mongo, { registered: 3_200, real: 0 }));
  await inParallel(tokens.length, 40, (index) => subscribe(tokens[index], [topic]));
});
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
});

test('page 1,000,000 is empty and costs no more than page 1', async () => {
  // Each API process knows the key from then on.
  await inParallel(12, 12, () => pageOf(topic));
  const far = await apiOperationsDuring(mongo, async () => {
    expect(await pageOf(topic, `/topics/${topic}?page=1000000`)).toEqual({ subscribers: [] });
  });
  const first = await apiOperationsDuring(mongo, () => pageOf(topic));
  expect(far.documents).toBeLessThanOrEqual(first.documents);
  expect(far.operations.length).toBeLessThanOrEqual(first.operations.length);
});

test('the last page is still found without those before it, and so is the end', async () => {
  expect((await pageOf(topic, `/topics/${topic}?page=4`)).subscribers).toHaveLength(200);
  expect(await pageOf(topic, `/topics/${topic}?page=5`)).toEqual({ subscribers: [] });
});

test('GET /devices/<token> of another app causes no more queries than that of an absent device', async () => {
  const [token = ''] = tokens;
  const topics = Array.from({ length: 100 }, (_, n) => `topic-${n}`);
  await subscribe(token, topics);
  const rows = Array.from({ length: 500 }, (_, n) => {
    const push = n.toString(16).padStart(24, '0');
    return { _id: `${token}:${push}` as never, push, app: stack.dev.app };
  });
  await mongo.db.collection('inbox').insertMany(rows);
  const sendRequest = (one: string) => foreign.api('GET', `/devices/${one}`);
  // Each API process knows the key from then on.
  await inParallel(12, 12, () => sendRequest('warm-up'));
  const ofAbsent = await apiOperationsDuring(mongo, async () =>
    expectApiError(await sendRequest('a'.repeat(token.length)), 'INVALID_DEVICE_TOKEN'),
  );
  const ofForeign = await apiOperationsDuring(mongo, async () =>
    expectApiError(await sendRequest(token), 'APP_MISMATCH'),
  );
  expect(ofForeign.operations).toEqual(ofAbsent.operations);
  // Both queries read the device: the first one for this app's, the second for the error.
  expect(ofForeign.documents).toBeLessThanOrEqual(ofAbsent.documents + 2);
  expect(await topicsOf(token)).toHaveLength(topics.length + 1);
});
