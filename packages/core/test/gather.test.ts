import { expect, test } from '@jest/globals';
import { createGather } from '../src/gather.ts';

const GATHER_MS = 20;

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
