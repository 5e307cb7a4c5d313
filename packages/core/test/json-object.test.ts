import { expect, test } from '@jest/globals';
import { withFields } from '../src/json-object.ts';

test.each([
  ['{}', { a: 1 }, '{"a":1}'],
  [' {\n} ', { a: 1 }, '{"a":1}'],
  ['{"n":1.0}', {}, '{"n":1.0}'],
  ['{}', {}, '{}'],
  ['{ "n": 12345678901234567890 }\n', { a: null }, '{"n": 12345678901234567890,"a":null}'],
  ['{"a":"}"}', { b: undefined, c: { d: [] } }, '{"a":"}","c":{"d":[]}}'],
])('%j with %j is %j', (text, fields, expected) => {
  expect(withFields(text, fields)).toBe(expected);
});

test('of two equal keys ours wins', () => {
  expect(JSON.parse(withFields('{"id":"theirs"}', { id: 'ours' }))).toEqual({ id: 'ours' });
});
