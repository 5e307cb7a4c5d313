import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createDevicePool } from '../support/faults/device-pool.ts';
import { createTopicCalls } from '../support/guarantees/topic-calls.ts';
import { openMongo } from '../support/mongo.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

let stack: Stack;
let tokens: string[];
const calls = createTopicCalls(() => stack);
beforeAll(async () => {
  stack = await useKillableStack();
  const mongo = await openMongo(stack.dev);
  ({ tokens } = await createDevicePool(stack, mongo, { registered: 1_000, real: 0 }));
  await mongo.close();
});
afterAll(() => stack?.stop());

/** Waits until the counter, which is counted anew from time to time, agrees with the list. */
async function expectExact(topic: string, expected: readonly string[]): Promise<void> {
  expect((await calls.allOf(topic)).toSorted()).toEqual([...expected].sort());
  const isExact = async () => (await calls.getSubscriberCount(topic)) === expected.length;
  await until(isExact, { everyMs: 250, what: `${expected.length} counted` });
}

test('after 500 changes at once over two API processes', async () => {
  const some = tokens.slice(0, 12);
  const topics = [randomUUID(), randomUUID()];
  await calls.inParallel(500, 40, () => {
    const token = some[Math.floor(Math.random() * some.length)];
    const change = Math.random() < 0.5 ? calls.subscribe : calls.unsubscribe;
    return change(token, topics.slice(Math.floor(Math.random() * 2)));
  });
  const holders = await Promise.all(some.map(calls.topicsOf));
  await Promise.all(
    topics.map((topic) =>
      expectExact(
        topic,
        some.filter((_, at) => holders[at]?.includes(topic)),
      ),
    ),
  );
});

test('after the API was killed amid many changes', async () => {
  const topics = [randomUUID(), randomUUID()];
  const some = tokens.slice(100, 900);
  let done = 0;
  const changed = calls.inParallel(some.length, 50, async (index) => {
    await calls.subscribe(some[index], topics).catch(() => 0);
    if (index % 2 === 0) await calls.unsubscribe(some[index], topics).catch(() => 0);
    done += 1;
  });
  await until(() => done > 300, { everyMs: 1 });
  const killed = [0, 1].map((index) => stack.kill('api', 'SIGKILL', index));
  await changed;
  await Promise.all(killed.map((pid, index) => stack.waitForRestart('api', pid, index)));
  const lists = await Promise.all(topics.map((topic) => calls.allOf(topic)));
  await Promise.all(topics.map((topic, at) => expectExact(topic, lists[at] ?? [])));
});
