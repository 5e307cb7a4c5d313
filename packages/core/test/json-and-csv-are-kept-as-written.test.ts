import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { z } from 'zod';
import { formatCsvRecord, parseCsvRecord } from '../src/csv.ts';
import { appendJsonFields } from '../src/json-object.ts';
import { canonicalizeJson, parseJsonObject, readFieldText } from '../src/json-text.ts';
import { LIMITS } from '../src/limits.ts';
import { validate } from '../src/validate.ts';

describe('the text of a field', () => {
  test('keeps numbers, order and duplicate keys unchanged', () => {
    const text = '{ "a" : 1, "data" : { "z" : 1.0, "b" : 12345678901234567890, "z" : 1e400 } }';
    expect(readFieldText(text, 'data')).toBe('{"z":1.0,"b":12345678901234567890,"z":1e400}');
  });

  test('is that of the last one if the field occurs twice, also with escapes in its name', () => {
    expect(readFieldText('{"data":1,"x":[{"data":5}],"d\\u0061ta":[ 2 ]}', 'data')).toBe('[2]');
    expect(readFieldText('{"x":{"data":1}}', 'data')).toBeUndefined();
  });

  test('loses only white space and unnecessary escapes', () => {
    const text = '{"data":{"q\\u0022":"\\u00e9 \\n\\/ \\ud800", "s" : "  , : { "}}';
    expect(readFieldText(text, 'data')).toBe('{"q\\"":"é \\n/ \\ud800","s":"  , : { "}');
  });

  test('parses to the same value as the original for any JSON', () => {
    fc.assert(
      fc.property(fc.json(), fc.dictionary(fc.string(), fc.jsonValue()), (data, rest) => {
        const others = JSON.stringify(rest, null, 1).slice(1, -1);
        const text = `{${others}${others.trim() === '' ? '' : ','} "data" :\t${data}\n}`;
        expect(JSON.parse(readFieldText(text, 'data') ?? '')).toEqual(JSON.parse(data));
      }),
      { numRuns: 500 },
    );
  });
});

describe('a request body', () => {
  test.each(['[]', '"text"', 'null', '1', '{', '{"a":1}x', ''])('%p is rejected', (text) => {
    expect(() => parseJsonObject(text, 10)).toThrow(/JSON/);
  });

  test('may be nested up to the limit, not counting brackets in strings', () => {
    const nested = (depth: number): string => `{"a":${'['.repeat(depth)}"]]"${']'.repeat(depth)}}`;
    expect(parseJsonObject(nested(9), 10)).toBeDefined();
    expect(() => parseJsonObject(nested(10), 10)).toThrow('nested too deep');
    expect(() => parseJsonObject('['.repeat(1_000_000), 10)).toThrow('nested too deep');
  });
});

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

test.each([
  ['{"id":"theirs"}', '{"id":"ours"}'],
  ['{"n":1.0,"id":[1,{"id":2}],"e":1e400}', '{"n":1.0,"e":1e400,"id":"ours"}'],
  ['{"id":1,"n":12345678901234567890,"id":{}}', '{"n":12345678901234567890,"id":"ours"}'],
  ['{ "\\u0069d" : "},{" , "z": 1 , "a" : 2 }', '{"z": 1 ,"a" : 2,"id":"ours"}'],
  ['{"a":{"id":1},"b":[{"id":2}],"c":"id"}', '{"a":{"id":1},"b":[{"id":2}],"c":"id","id":"ours"}'],
  ['{"n":"\\"id\\":1","idea":1,"i":2}', '{"n":"\\"id\\":1","idea":1,"i":2,"id":"ours"}'],
  ['{"\\\\u0069d":1}', '{"\\\\u0069d":1,"id":"ours"}'],
])('a field appended to %s replaces those of its name, nothing else', (text, expected) => {
  expect(appendJsonFields(text, { id: 'ours', z: undefined })).toBe(expected);
});

test('appending replaces what a parser would have replaced, for any JSON', () => {
  const names = fc.constantFrom('id', 'other', 'data', '', '"');
  const object = fc.dictionary(names, fc.jsonValue());
  fc.assert(
    fc.property(object, fc.constantFrom(0, 1), (fields, indent) => {
      const text = JSON.stringify(fields, null, indent);
      expect(JSON.parse(appendJsonFields(text, { id: 1, other: 2 }))).toEqual({
        ...JSON.parse(text),
        ...{ id: 1, other: 2 },
      });
    }),
    { numRuns: 500 },
  );
});

describe('a canonical text', () => {
  const HALF_DEPTH = LIMITS.payloadDepth / 2;

  /** Builds an object's text with its fields in this or the other order, at every level. */
  function shuffle(value: unknown, isReversed: boolean): string {
    if (Array.isArray(value)) return `[${value.map((item) => shuffle(item, isReversed))}]`;
    if (typeof value !== 'object' || value === null) return JSON.stringify(value);
    const fields = Object.entries(value).map(
      ([name, field]) => ` ${JSON.stringify(name)} : ${shuffle(field, isReversed)}\n`,
    );
    return `{${isReversed ? fields.reverse() : fields}}`;
  }

  test('does not depend on the order of keys, white space or escapes, for any JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = canonicalizeJson(JSON.stringify(value));
        expect(canonicalizeJson(shuffle(value, false))).toBe(text);
        expect(canonicalizeJson(shuffle(value, true))).toBe(text);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
      { numRuns: 500 },
    );
    expect(canonicalizeJson('{"\\u0062":"\\/\\u00e9","a":[{"d":{},"c":[]}]}')).toBe(
      '{"a":[{"c":[],"d":{}}],"b":"/é"}',
    );
  });

  test.each([
    ['{"n":1}', '{"n":1.0}'],
    ['{"n":9007199254740992}', '{"n":9007199254740993}'],
    ['{"a":[1,2]}', '{"a":[2,1]}'],
    ['{"a":{"b":1},"c":2}', '{"a":{"c":2},"b":1}'],
    ['{"a":"1"}', '{"a":1}'],
    ['{"a":1,"b":2,"a":3}', '{"a":3,"b":2,"a":1}'],
    ['{"a":1,"a":2}', '{"a":2}'],
    ['{"a":["b","c"]}', '{"a":["b,c"]}'],
    ['{"a":null}', '{}'],
    ['{"__proto__":1}', '{"constructor":1}'],
  ])('of %s is not that of %s', (one, other) => {
    expect(canonicalizeJson(one)).not.toBe(canonicalizeJson(other));
  });

  test('is made at any depth that a request may have, however long the request', () => {
    const nest = (open: string, close: string) =>
      `${open.repeat(HALF_DEPTH)}"${'x'.repeat(4_000_000)}"${close.repeat(HALF_DEPTH)}`;
    const one = nest('{"b":1,"a":[', ']}');
    expect(canonicalizeJson(one) === canonicalizeJson(nest('{"a":[', '],"b":1}'))).toBe(true);
    expect(canonicalizeJson(one) === nest('{"a":[', '],"b":1}')).toBe(true);
  });
});

test('every text is read as it was written', () => {
  const text = fc.oneof(
    fc.string(),
    fc.constantFrom('', '"', "'", "'=1", ',', '\r\n', '=1', '-', '\t'),
  );
  fc.assert(
    fc.property(fc.array(text, { minLength: 1 }), (fields) => {
      const record = formatCsvRecord(fields);
      expect(record.endsWith('\r\n')).toBe(true);
      expect(parseCsvRecord(record.slice(0, -2), true)).toEqual(fields);
    }),
  );
});

test.each(['=1+1', '+1', '-1', '@a', '\t=1', "'=1"])('%j is no formula', (text) => {
  const [field = ''] = parseCsvRecord(formatCsvRecord([text]).slice(0, -2));
  expect(field).toBe(`'${text}`);
});

test('other values are written as text, JSON or nothing', () => {
  expect(formatCsvRecord([1, true, undefined, ['a', 'b'], { c: 1 }])).toBe(
    '1,true,,"[""a"",""b""]","{""c"":1}"\r\n',
  );
});

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
