import { expect, test } from '@jest/globals';
import { createBatcher } from '../src/batcher.ts';

test('calls during a batch in flight form the next batch', async () => {
  const batches: number[][] = [];
  const gate = Promise.withResolvers<void>();
  const double = createBatcher<number, number>('read-push', async (items) => {
    batches.push(items);
    await gate.promise;
    return items.map((item) => item * 2);
  });
  const first = double(1);
  await new Promise(setImmediate);
  const laterCalls = [double(2), double(3), double(4)];
  gate.resolve();
  expect(await Promise.all([first, ...laterCalls])).toEqual([2, 4, 6, 8]);
  expect(batches).toEqual([[1], [2, 3, 4]]);
});

test('an error of one item fails one call, an error of the batch fails all its calls', async () => {
  const perItem = createBatcher<number, number>('read-push', async (items) =>
    items.map((item) => (item === 2 ? new Error('two') : item)),
  );
  const results = await Promise.allSettled([perItem(1), perItem(2), perItem(3)]);
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  const failing = createBatcher<number, number>('read-push', async () => {
    throw new Error('all');
  });
  await expect(Promise.all([failing(1), failing(2)])).rejects.toThrow('all');
});

test('a batch has at most maxBatchSize items', async () => {
  const sizes: number[] = [];
  const count = createBatcher<number, void>(
    'read-push',
    async (items) => {
      sizes.push(items.length);
      return items.map(() => undefined);
    },
    { maxBatchSize: 10 },
  );
  await Promise.all(Array.from({ length: 25 }, (_, item) => count(item)));
  expect(sizes).toEqual([10, 10, 5]);
});
