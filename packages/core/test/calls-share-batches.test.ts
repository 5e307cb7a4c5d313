import { describe, expect, test } from '@jest/globals';
import { createBatcher } from '../src/batcher.ts';
import { createGather } from '../src/gather.ts';

test('calls during a batch in flight form the next batch', async () => {
  const batches: number[][] = [];
  const gate = Promise.withResolvers<void>();
  const doubled = createBatcher<number, number>('read-push', async (items) => {
    batches.push(items);
    await gate.promise;
    return items.map((item) => item * 2);
  });
  const first = doubled(1);
  await new Promise(setImmediate);
  const laterCalls = [doubled(2), doubled(3), doubled(4)];
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

describe('with a time to gather', () => {
  const LONG_MS = 60_000;

  /** Counts the batches, and gathers for a time that does not pass within the test. */
  function createCounting(
    gatherMs: number,
    maxBatchSize: number,
    rest: { enough?: number; isUrgent?: (item: number) => boolean } = {},
  ) {
    const sizes: number[] = [];
    const call = createBatcher<number, void>(
      'read-push',
      async (items) => {
        sizes.push(items.length);
        return items.map(() => undefined);
      },
      { gatherMs, maxBatchSize, ...rest },
    );
    return { sizes, call };
  }

  test('the first call starts at once, later ones when the time has passed', async () => {
    const { sizes, call } = createCounting(20, 100);
    await call(1);
    await Promise.all([call(2), call(3), call(4)]);
    expect(sizes).toEqual([1, 3]);
  });

  test('an urgent call does not wait, and takes those before it along', async () => {
    const isUrgent = (item: number) => item === 4;
    const { sizes, call } = createCounting(LONG_MS, 100, { isUrgent });
    await call(1);
    const early = [call(2), call(3)];
    await new Promise(setImmediate);
    expect(sizes).toEqual([1]);
    await Promise.all([...early, call(4)]);
    expect(sizes).toEqual([1, 3]);
    const next = call(2);
    await new Promise(setImmediate);
    expect(sizes).toEqual([1, 3]);
    await Promise.all([next, call(4)]);
    expect(sizes).toEqual([1, 3, 2]);
  });

  test('an urgent call that does not fit into the batch is in the next one', async () => {
    const { sizes, call } = createCounting(LONG_MS, 2, { isUrgent: (item) => item === 4 });
    await call(1);
    await Promise.all([call(2), call(3), call(4)]);
    expect(sizes).toEqual([1, 2, 1]);
  });

  test('a full batch starts at once', async () => {
    const { sizes, call } = createCounting(LONG_MS, 2);
    await call(1);
    const early = call(2);
    await new Promise(setImmediate);
    await Promise.all([early, call(3)]);
    expect(sizes).toEqual([1, 2]);
  });

  test('as many calls as are enough start at once', async () => {
    const { sizes, call } = createCounting(LONG_MS, 100, { enough: 2 });
    await call(1);
    const early = call(2);
    await new Promise(setImmediate);
    await Promise.all([early, call(3)]);
    expect(sizes).toEqual([1, 2]);
  });
});

/** Longer than two turns of a busy process. */
const GATHER_MS = 1_000;

test('a call that finds none in progress begins at once, those after it begin together', async () => {
  const gather = createGather(GATHER_MS);
  const begun: number[] = [];
  const gate = Promise.withResolvers<void>();
  const call = (n: number) =>
    gather(async () => {
      begun.push(n);
      await gate.promise;
      return n;
    });
  const calls = [call(0)];
  expect(begun).toEqual([0]);
  calls.push(call(1));
  await new Promise(setImmediate);
  calls.push(call(2));
  expect(begun).toEqual([0]);
  const together: number[][] = [];
  while (begun.length < 3) {
    await new Promise(setImmediate);
    together.push([...begun]);
  }
  // Never one of the two alone.
  expect(together.filter((some) => some.length === 2)).toEqual([]);
  gate.resolve();
  expect(await Promise.all(calls)).toEqual([0, 1, 2]);
});

test('a caller who waits for each result waits for nobody else, also after a failure', async () => {
  const gather = createGather(60_000);
  await expect(gather(() => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
  for (const n of [1, 2, 3]) expect(await gather(async () => n)).toBe(n);
});
