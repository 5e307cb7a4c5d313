import { expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { createSemaphore } from '../src/deliver/semaphore.ts';

const PERMITS = 4;

/** Acquires permits one after the other; `held` lists those that were given, in their order. */
function createHolders(count: number) {
  const semaphore = createSemaphore(PERMITS);
  const held: number[] = [];
  const releases = Array.from({ length: count }, async (_, n) => {
    const release = await semaphore.acquire();
    held.push(n);
    return release;
  });
  return {
    semaphore,
    async held(): Promise<number[]> {
      await new Promise(setImmediate);
      return held;
    },
    async release(n: number): Promise<void> {
      (await releases[n])?.();
    },
  };
}

test('permits are given in the order of the calls, and released once', async () => {
  const holders = createHolders(PERMITS + 2);
  expect(await holders.held()).toEqual([0, 1, 2, 3]);
  await holders.release(1);
  await holders.release(1);
  expect(await holders.held()).toEqual([0, 1, 2, 3, 4]);
});

test('after it shrank one more is given, then another with each growth, up to all', async () => {
  const holders = createHolders(3 * PERMITS);
  expect(await holders.held()).toHaveLength(PERMITS);
  holders.semaphore.shrinkToOne();
  // Those that were held before do not count, and are not given again.
  for (const n of [0, 1]) await holders.release(n);
  expect(await holders.held()).toHaveLength(PERMITS + 1);
  for (const n of [2, 3]) await holders.release(n);
  expect(await holders.held()).toHaveLength(PERMITS + 1);
  holders.semaphore.growByOne();
  expect(await holders.held()).toHaveLength(PERMITS + 2);
  await holders.release(PERMITS);
  expect(await holders.held()).toHaveLength(PERMITS + 3);
  for (let n = 0; n < 2 * PERMITS; n += 1) holders.semaphore.growByOne();
  expect(await holders.held()).toHaveLength(2 * PERMITS + 1);
});

test('apps take turns, each for the pushes of a job; one that comes is next', async () => {
  const semaphore = createSemaphore(1);
  const order: string[] = [];
  const use = async (app: string) => {
    const release = await semaphore.acquire(app);
    order.push(app);
    await new Promise(setImmediate);
    if (order.length === 70) waiting.push(use('third'));
    release();
  };
  const waiting = [
    ...Array.from({ length: 120 }, () => use('first')),
    ...Array.from({ length: 60 }, () => use('second')),
  ];
  await new Promise(setImmediate);
  await until(() => order.length === 181);
  await Promise.all(waiting);
  const runs = order.reduce<[string, number][]>((found, app) => {
    const last = found.at(-1);
    if (last?.[0] === app) last[1] += 1;
    else found.push([app, 1]);
    return found;
  }, []);
  expect(runs).toEqual([
    // One each when they came, of the first also the free permit.
    ['first', 2],
    ['second', 1],
    ['first', 50],
    ['second', 17],
    ['third', 1],
    ['second', 33],
    ['first', 50],
    ['second', 9],
    ['first', 18],
  ]);
});
