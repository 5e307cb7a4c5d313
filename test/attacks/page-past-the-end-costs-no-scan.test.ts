import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { apiOperationsDuring } from '../support/attacks/mongo-operations.ts';
import { createDevicePool } from '../support/faults/device-pool.ts';
import { startStackWithoutLimits } from '../support/guarantees/start-unlimited.ts';
import { createTopicCalls } from '../support/guarantees/topic-calls.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import type { Stack } from '../support/stack.ts';

const topic = randomUUID();

let stack: Stack;
let mongo: TestMongo;
const { subscribe, pageOf, inParallel } = createTopicCalls(() => stack);
beforeAll(async () => {
  stack = await startStackWithoutLimits({ schedulers: 0 });
  mongo = await openMongo(stack.dev);
  const { tokens } = await createDevicePool(stack, mongo, { registered: 3_200, real: 0 });
  await inParallel(tokens.length, 40, (index) => subscribe(tokens[index], [topic]));
});
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
});

test('page 1,000,000 is empty and costs no more than page 1', async () => {
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
