import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { createBatcher } from '../src/batcher.ts';

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

test('slow batches delay no call until there are too many of them', async () => {
  const gates: PromiseWithResolvers<void>[] = [];
  const batches: number[][] = [];
  const handle = async (items: number[]) => {
    const gate = Promise.withResolvers<void>();
    gates.push(gate);
    batches.push(items);
    await gate.promise;
    return items.map(() => undefined);
  };
  const call = createBatcher<number, void>('read-push', handle, { maxSlow: 4 });
  const calls: Promise<void>[] = [];
  for (let item = 0; item < 6; item += 1) {
    calls.push(call(item));
    // Each starts when the previous one has become slow; the last exceeds the limit.
    if (item < 5) while (batches.length <= item) await new Promise((r) => setTimeout(r, 10));
  }
  calls.push(call(6));
  await new Promise((r) => setTimeout(r, 500));
  expect(batches).toEqual([[0], [1], [2], [3], [4]]);
  gates[0]?.resolve();
  await calls[0];
  while (batches.length < 6) await new Promise((r) => setTimeout(r, 10));
  expect(batches[5]).toEqual([5, 6]);
  for (const gate of gates) gate.resolve();
  await Promise.all(calls);
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
    rest: {
      gatherManyMs?: number;
      enough?: number;
      isUrgent?: (item: number) => boolean;
      probeEveryMs?: number;
    } = {},
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

  test('the first call starts at once, later ones share a batch', async () => {
    const { sizes, call } = createCounting(20, 100);
    await call(1);
    await Promise.all([
      call(2),
      new Promise(setImmediate).then(() => call(3)),
      new Promise(setImmediate).then(() => call(4)),
    ]);
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

  test('calls one after the other do not wait, because a probe found no call to share with', async () => {
    const { sizes, call } = createCounting(LONG_MS, 100, { probeEveryMs: LONG_MS });
    await call(1);
    await call(2);
    await call(3);
    expect(sizes).toEqual([1, 1, 1]);
  });

  test('a batch starts as soon as it has as many calls as the probe', async () => {
    const { sizes, call } = createCounting(LONG_MS, 100, { probeEveryMs: LONG_MS });
    await Promise.all([call(1), call(2)]);
    const third = call(3);
    await new Promise(setImmediate);
    expect(sizes).toEqual([2]);
    await Promise.all([third, call(4)]);
    expect(sizes).toEqual([2, 2]);
  });

  test('with fewer calls than the probe had it starts after the time', async () => {
    const { sizes, call } = createCounting(20, 100, { probeEveryMs: LONG_MS });
    await Promise.all([call(1), call(2), call(3)]);
    await Promise.all([call(4), new Promise(setImmediate).then(() => call(5))]);
    expect(sizes).toEqual([3, 2]);
  });

  test('after a probe with many calls batches wait for another time', async () => {
    const limits = { gatherManyMs: LONG_MS, probeEveryMs: LONG_MS };
    const few = createCounting(20, 100, limits);
    await Promise.all([1, 2, 3].map(few.call));
    await few.call(4);
    expect(few.sizes).toEqual([3, 1]);
    const many = createCounting(20, 100, limits);
    await Promise.all([1, 2, 3, 4].map(many.call));
    const early = many.call(5);
    await sleep(100);
    expect(many.sizes).toEqual([4]);
    await Promise.all([early, ...[6, 7, 8].map(many.call)]);
    expect(many.sizes).toEqual([4, 4]);
  });

  test('a probe waits, although the one before it found a single call; after a pause it comes soon', async () => {
    const { sizes, call } = createCounting(LONG_MS, 100, { enough: 2, probeEveryMs: 2_000 });
    await call(1);
    // Longer than a tenth of the time between probes.
    await sleep(250);
    const waiting = call(2);
    await new Promise(setImmediate);
    expect(sizes).toEqual([1]);
    await Promise.all([waiting, call(3)]);
    expect(sizes).toEqual([1, 2]);
  });
});
