import { expect, test } from '@jest/globals';
import { createGroup } from '../src/group.ts';

test('calls that come while a group is in flight form the next one', async () => {
  const groups: number[][] = [];
  const gate = Promise.withResolvers<void>();
  const double = createGroup<number, number>(async (items) => {
    groups.push(items);
    await gate.promise;
    return items.map((item) => item * 2);
  });
  const first = double(1);
  await new Promise(setImmediate);
  const later = [double(2), double(3), double(4)];
  gate.resolve();
  expect(await Promise.all([first, ...later])).toEqual([2, 4, 6, 8]);
  expect(groups).toEqual([[1], [2, 3, 4]]);
});

test('a fault of one item is its own, a fault of the group is everybody’s', async () => {
  const single = createGroup<number, number>(async (items) =>
    items.map((item) => (item === 2 ? new Error('two') : item)),
  );
  const results = await Promise.allSettled([single(1), single(2), single(3)]);
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  const whole = createGroup<number, number>(async () => {
    throw new Error('all');
  });
  await expect(Promise.all([whole(1), whole(2)])).rejects.toThrow('all');
});

test('groups hold no more than their limit', async () => {
  const sizes: number[] = [];
  const count = createGroup<number, void>(
    async (items) => {
      sizes.push(items.length);
      return items.map(() => undefined);
    },
    { maxItems: 10 },
  );
  await Promise.all(Array.from({ length: 25 }, (_, item) => count(item)));
  expect(sizes).toEqual([10, 10, 5]);
});
