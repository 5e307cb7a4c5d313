import { randomUUID } from 'node:crypto';
import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { createDevicePool } from '../support/faults/device-pool.ts';
import { sendPush } from '../support/faults/pushes.ts';
import { createFleet } from '../support/guarantees/devices.ts';
import { createTopicCalls } from '../support/guarantees/topic-calls.ts';
import { openMongo } from '../support/mongo.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

const PAGE = 1_000;

let stack: SharedStack;
let tokens: string[];
const fleet = createFleet(() => stack.dev);
const {
  subscribe,
  unsubscribe,
  getSubscriberCount: countOf,
  pageOf,
  allOf,
  topicsOf,
  inParallel,
} = createTopicCalls(() => stack);
beforeAll(async () => {
  stack = await useSharedStack();
  const mongo = await openMongo(stack.dev);
  ({ tokens } = await createDevicePool(stack, mongo, { registered: 3_500, real: 0 }));
  await mongo.close();
});
afterEach(() => fleet.disconnectAll());

describe('a change of a subscription is visible to the next request', () => {
  test('ten changes in turn', async () => {
    const { token } = await fleet.offline();
    const topic = randomUUID();
    for (let i = 0; i < 10; i++) {
      expect(await subscribe(token, [topic])).toBe(200);
      expect(await topicsOf(token)).toEqual([topic]);
      expect(await pageOf(topic)).toEqual({ subscribers: [token] });
      expect(await countOf(topic)).toBe(1);
      expect((await sendPush(stack, `/topics/${topic}`)).devices).toBe(1);
      expect(await unsubscribe(token, [topic])).toBe(200);
      expect(await topicsOf(token)).toEqual([]);
      expect(await pageOf(topic)).toEqual({ subscribers: [] });
      expect(await countOf(topic)).toBe(0);
    }
  });

  test('a repeated change counts once', async () => {
    const { token } = await fleet.offline();
    const topic = randomUUID();
    for (let i = 0; i < 3; i++) expect(await subscribe(token, [topic, topic])).toBe(200);
    expect(await countOf(topic)).toBe(1);
    expect(await topicsOf(token)).toEqual([topic]);
    for (let i = 0; i < 3; i++) expect(await unsubscribe(token, [topic, topic])).toBe(200);
    expect(await countOf(topic)).toBe(0);
    expect(await unsubscribe(token, [randomUUID()])).toBe(200);
  });

  test('["*"] removes all subscriptions of the device and no other', async () => {
    const [one, two] = await fleet.createMany(2, 'offline');
    const topics = Array.from({ length: 5 }, () => randomUUID());
    await subscribe(one?.token, topics);
    await subscribe(two?.token, topics);
    expect(await unsubscribe(one?.token, ['*'])).toBe(200);
    expect(await topicsOf(one?.token)).toEqual([]);
    expect(await topicsOf(two?.token)).toEqual([...topics].sort());
    for (const topic of topics) expect(await countOf(topic)).toBe(1);
    expect(await unsubscribe(one?.token, ['*'])).toBe(200);
  });
});

describe('2,500 subscribers on pages', () => {
  const topic = randomUUID();
  let stayers: string[];
  beforeAll(async () => {
    stayers = tokens.slice(1_000);
    await inParallel(stayers.length, 40, (index) => subscribe(stayers[index], [topic]));
  });

  test('1,000 a page, each once, and no link after the last', async () => {
    const first = await pageOf(topic);
    const link = `/topics/${topic}?api_key=${stack.dev.apiKey}&page=2`;
    expect(first.pagination).toBe(link);
    const second = await pageOf(topic, first.pagination);
    const third = await pageOf(topic, second.pagination);
    const sizes = [first, second, third].map(({ subscribers }) => subscribers.length);
    expect(sizes).toEqual([PAGE, PAGE, 500]);
    expect(third.pagination).toBeUndefined();
    expect((await allOf(topic)).toSorted()).toEqual(stayers.toSorted());
    expect(await countOf(topic)).toBe(2_500);
  });

  test('a page can be requested without the one before it', async () => {
    const third = await pageOf(topic, `/topics/${topic}?page=3`);
    expect(third.subscribers).toHaveLength(500);
    expect(await pageOf(topic, `/topics/${topic}?page=4`)).toEqual({ subscribers: [] });
  });

  test('pages read while others join and leave miss no subscriber that stays', async () => {
    const changing = tokens.slice(0, 300);
    let isOver = false;
    const changes = inParallel(8, 8, async () => {
      while (!isOver) {
        const token = changing[Math.floor(Math.random() * changing.length)];
        await (Math.random() < 0.5 ? subscribe : unsubscribe)(token, [topic]);
      }
    });
    const known = new Set(tokens);
    for (let round = 0; round < 10; round++) {
      const seen = new Set(await allOf(topic));
      expect(stayers.filter((token) => !seen.has(token))).toEqual([]);
      expect([...seen].filter((token) => !known.has(token))).toEqual([]);
    }
    isOver = true;
    await changes;
    await inParallel(changing.length, 40, (index) => unsubscribe(changing[index], [topic]));
    expect((await allOf(topic)).toSorted()).toEqual(stayers.toSorted());
  });

  test('the next page continues where the previous one ended, though its last subscribers have left', async () => {
    const own = randomUUID();
    const sorted = stayers.toSorted().slice(0, 1_200);
    await inParallel(sorted.length, 40, (index) => subscribe(sorted[index], [own]));
    const first = await pageOf(own);
    const leaving = sorted.slice(900, 1_000);
    await inParallel(leaving.length, 40, (index) => unsubscribe(leaving[index], [own]));
    const second = await pageOf(own, first.pagination);
    expect(second.subscribers).toEqual(sorted.slice(1_000));
  });
});
