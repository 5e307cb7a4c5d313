import { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import { StreamedBody } from '../src/http/response.ts';
import { listTopics } from '../src/topics/list-topics.ts';

/** More than two pages. */
const TOPICS = 2_500;

let database: StoreUnderTest;
beforeAll(async () => {
  database = await startStore();
});
afterAll(async () => {
  await database?.stop();
});

async function insertTopics(app: string, count: number, subscribersOf: (n: number) => number) {
  const topics = Array.from({ length: count }, (_, n) => {
    const subscribers = subscribersOf(n);
    return { name: `topic${String(n).padStart(5, '0')}`, subscribers };
  });
  await database.db.collection<{ _id: string }>('topics').insertMany(
    topics.map(({ name, subscribers: android }) => ({
      _id: `${app}:${name}`,
      n: { android },
      v: 1,
    })),
  );
  return topics.filter(({ subscribers }) => subscribers > 0);
}

async function readTopics(app: string): Promise<{ topics: unknown; chunks: number }> {
  const context = { signal: new AbortController().signal, onError: () => undefined };
  const body = await listTopics(database.store, app, context);
  if (!(body instanceof StreamedBody)) return { ...(body as { topics: unknown }), chunks: 0 };
  const chunks = await Readable.from(body.chunks).toArray();
  expect(chunks).not.toContain('');
  return { ...JSON.parse(chunks.join('')), chunks: chunks.length };
}

test('a short list is one response, without topics that have no subscribers', async () => {
  const expected = await insertTopics('short', 20, (n) => n % 3);
  expect(await readTopics('short')).toEqual({ topics: expected, chunks: 0 });
  expect(await readTopics('none')).toEqual({ topics: [], chunks: 0 });
});

test('a long list is complete and sorted, also where whole pages have no subscribers', async () => {
  const all = await insertTopics('long', TOPICS, (n) => n + 1);
  expect(await readTopics('long')).toEqual({ topics: all, chunks: 4 });
  const last = await insertTopics('left', TOPICS, (n) => (n < 2_000 ? 0 : 1));
  expect(await readTopics('left')).toEqual({ topics: last, chunks: 2 });
  await insertTopics('empty', TOPICS, () => 0);
  expect(await readTopics('empty')).toEqual({ topics: [], chunks: 1 });
});
