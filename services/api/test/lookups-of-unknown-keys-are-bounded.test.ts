import { expect, test } from '@jest/globals';
import { createThrottledLookup } from '../src/http/throttled-lookup.ts';

const PER_ADDRESS = 2_000;
const IN_ALL = 4_000;
const OVERLOADED = { code: 'SERVICE_UNAVAILABLE' };

/** A lookup that knows the owner of every key, and the keys of each query that it has run. */
function startLookup() {
  const queries: string[][] = [];
  const find = createThrottledLookup(async (keys) => {
    queries.push(keys);
    return new Map(keys.map((key) => [key, `owner of ${key}`]));
  });
  return { find, queries };
}

/** Looks up keys of an address at once. */
function findMany(find: ReturnType<typeof startLookup>['find'], count: number, address: string) {
  return Array.from({ length: count }, (_, n) => find(`key ${n} of ${address}`, address));
}

function countRefused(results: readonly PromiseSettledResult<unknown>[]): number {
  const refused = results.filter((result) => result.status === 'rejected');
  for (const { reason } of refused) expect(reason).toMatchObject(OVERLOADED);
  return refused.length;
}

test('waiting keys share a query, and each gets its own owner', async () => {
  const { find, queries } = startLookup();
  const owners = await Promise.all(findMany(find, 500, '203.0.113.7'));
  expect(owners).toEqual(owners.map((_, n) => `owner of key ${n} of 203.0.113.7`));
  expect(queries.map(({ length }) => length)).toEqual([500]);
});

test('a query takes 2,000 keys of one address, chosen at random, and all of another address', async () => {
  const { find, queries } = startLookup();
  const flood = Promise.allSettled(findMany(find, 2 * PER_ADDRESS, '203.0.113.7'));
  const others = Promise.allSettled(findMany(find, 100, '198.51.100.1'));
  const results = await flood;
  expect(countRefused(results)).toBe(PER_ADDRESS);
  // Neither the first keys nor the last ones displace all others.
  expect(countRefused(results.slice(0, PER_ADDRESS))).toBeGreaterThan(0);
  expect(countRefused(results.slice(PER_ADDRESS))).toBeLessThan(PER_ADDRESS);
  expect(countRefused(await others)).toBe(0);
  expect(queries.map(({ length }) => length)).toEqual([PER_ADDRESS + 100]);
});

test('a query takes 4,000 keys of all addresses', async () => {
  const { find, queries } = startLookup();
  const results = await Promise.allSettled(
    ['192.0.2.1', '192.0.2.2', '192.0.2.3'].flatMap((address) => findMany(find, 1_500, address)),
  );
  expect(countRefused(results)).toBe(3 * 1_500 - IN_ALL);
  expect(queries.map(({ length }) => length)).toEqual([IN_ALL]);
});
