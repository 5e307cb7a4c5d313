import { expect, test } from '@jest/globals';
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
