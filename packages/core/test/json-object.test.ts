import { expect, test } from '@jest/globals';
import { appendJsonFields } from '../src/json-object.ts';

test.each([
  ['{}', { a: 1 }, '{"a":1}'],
  [' {\n} ', { a: 1 }, '{"a":1}'],
  ['{"n":1.0}', {}, '{"n":1.0}'],
  ['{}', {}, '{}'],
  ['{ "n": 12345678901234567890 }\n', { a: null }, '{"n": 12345678901234567890,"a":null}'],
  ['{"a":"}"}', { b: undefined, c: { d: [] } }, '{"a":"}","c":{"d":[]}}'],
])('%j with fields %j becomes %j', (text, fields, expected) => {
  expect(appendJsonFields(text, fields)).toBe(expected);
});

test('an appended field overrides an existing one', () => {
  expect(JSON.parse(appendJsonFields('{"id":"theirs"}', { id: 'ours' }))).toEqual({ id: 'ours' });
});
