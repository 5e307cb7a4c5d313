import { expect, test } from '@jest/globals';
import { setBounded } from '../src/set-bounded.ts';

test('an entry beyond the bound replaces the oldest one, which is returned', () => {
  const map = new Map<string, number>();
  expect(setBounded(map, 'a', 1, 2)).toBeUndefined();
  expect(setBounded(map, 'b', 2, 2)).toBeUndefined();
  expect(setBounded(map, 'c', 3, 2)).toBe(1);
  expect([...map]).toEqual([
    ['b', 2],
    ['c', 3],
  ]);
});

test('a new value of a known key removes nothing', () => {
  const map = new Map([
    ['a', 1],
    ['b', 2],
  ]);
  expect(setBounded(map, 'a', 3, 2)).toBeUndefined();
  expect([...map]).toEqual([
    ['a', 3],
    ['b', 2],
  ]);
});
