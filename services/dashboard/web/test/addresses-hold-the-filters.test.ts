import { expect, test } from '@jest/globals';
import { keepText, parseSearch, safeNext, stringifySearch } from '../src/lib/search-text.ts';
import { fromInputText, readRange, toInputText } from '../src/lib/time-range.ts';

test('a filter is restored from its address', () => {
  const search = { state: 'open', range: '24h', cursor: 'a b&c=ü' };
  expect(parseSearch(stringifySearch(search))).toEqual(search);
});

test('empty values are not in the address', () => {
  expect(stringifySearch({ state: '', cursor: undefined })).toBe('');
});

test('a page keeps only the parameters that it knows', () => {
  const keep = keepText('state', 'cursor');
  expect(keep({ state: 'open', cursor: '', other: 'x' })).toEqual({ state: 'open' });
});

test('a named range ends now, and a custom one at the time in the address', () => {
  expect(readRange({ range: '1h' }, 10_000_000)).toEqual({ from: 6_400_000 });
  expect(readRange({ from: '5', to: '7' }, 0)).toEqual({ from: 5, to: 7 });
  expect(readRange({ range: 'never', from: '-1', to: 'x' }, 0)).toEqual({});
});

test('a time stays the same through its input field', () => {
  const ms = Date.UTC(2026, 10, 23, 14, 5);
  expect(fromInputText(toInputText(ms))).toBe(String(ms));
  expect(fromInputText('')).toBeUndefined();
});

test('a login leads back only to a page of the console', () => {
  expect(safeNext('/apps/1/pushes?state=open')).toBe('/apps/1/pushes?state=open');
  for (const elsewhere of ['//host', '/\\host', '/\t/host', 'https://host', '/login?next=/', '']) {
    expect(safeNext(elsewhere)).toBe('/');
  }
});
