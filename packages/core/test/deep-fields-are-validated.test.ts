import { expect, test } from '@jest/globals';
import { z } from 'zod';
import { LIMITS } from '../src/limits.ts';
import { validate } from '../src/validate.ts';

/** Builds a value of `levels` nested objects, the innermost of which has a null field. */
function nest(levels: number): object {
  let value: object = { none: null };
  for (let level = 1; level < levels; level += 1) value = { a: value };
  return value;
}

test('a field as deep as a request may be is refused like any other of the wrong type', () => {
  const body = { flag: nest(LIMITS.payloadDepth) };
  expect(() => validate(z.object({ flag: z.boolean().optional() }), body)).toThrow(
    'The parameter "flag" must be true or false.',
  );
});

test('null fields are left out at every level, items of arrays are not', () => {
  const schema = z.object({ a: z.unknown(), b: z.unknown(), c: z.unknown().optional() });
  const body = JSON.parse('{"a":{"a":{"x":null,"y":1}},"b":[null,{"x":null}],"c":null}');
  expect(validate(schema, body)).toEqual({ a: { a: { y: 1 } }, b: [null, { x: null }] });
});

test('a field named __proto__ stays a field', () => {
  const body = JSON.parse('{"a":{"__proto__":{"x":null,"y":1}}}');
  const { a } = validate(z.object({ a: z.unknown() }), body) as { a: object };
  expect(JSON.stringify(a)).toBe('{"__proto__":{"y":1}}');
  expect(Object.getPrototypeOf(a)).toBe(Object.prototype);
});
