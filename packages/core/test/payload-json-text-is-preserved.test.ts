import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { parseJsonObject, readFieldText } from '../src/json-text.ts';

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
