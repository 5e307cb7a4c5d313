import type { Subscriber } from '@carillon/store/subscriptions';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { mergeSubscribers } from '../../src/fan-out/fan-out.ts';

async function* streamOf(tokens: readonly string[]): AsyncGenerator<Subscriber> {
  for (const token of tokens) yield { token, platform: 'android' };
}

test('merged topics return every subscriber once, sorted by token', async () => {
  const topic = fc
    .uniqueArray(fc.string({ minLength: 1, maxLength: 3 }))
    .map((list) => list.sort());
  await fc.assert(
    fc.asyncProperty(fc.array(topic, { maxLength: 6 }), async (topics) => {
      const merged: string[] = [];
      for await (const { token } of mergeSubscribers(topics.map(streamOf))) merged.push(token);
      expect(merged).toEqual([...new Set(topics.flat())].sort());
    }),
  );
});
