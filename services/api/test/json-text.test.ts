import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { fieldText, parseJsonObject } from '../src/http/json-text.ts';

describe('the text of a field', () => {
  test('keeps numbers, order and doubled keys as they came', () => {
    const text = '{ "a" : 1, "data" : { "z" : 1.0, "b" : 12345678901234567890, "z" : 1e400 } }';
    expect(fieldText(text, 'data')).toBe('{"z":1.0,"b":12345678901234567890,"z":1e400}');
  });

  test('is the last one when the field is given twice, however its name is written', () => {
    expect(fieldText('{"data":1,"x":[{"data":5}],"d\\u0061ta":[ 2 ]}', 'data')).toBe('[2]');
    expect(fieldText('{"x":{"data":1}}', 'data')).toBeUndefined();
  });

  test('drops white space and needless escapes only', () => {
    const text = '{"data":{"q\\u0022":"\\u00e9 \\n\\/ \\ud800", "s" : "  , : { "}}';
    expect(fieldText(text, 'data')).toBe('{"q\\"":"é \\n/ \\ud800","s":"  , : { "}');
  });

  test('means the same as the parser’s for any JSON', () => {
    fc.assert(
      fc.property(fc.json(), fc.dictionary(fc.string(), fc.jsonValue()), (data, rest) => {
        const others = JSON.stringify(rest, null, 1).slice(1, -1);
        const text = `{${others}${others.trim() === '' ? '' : ','} "data" :\t${data}\n}`;
        expect(JSON.parse(fieldText(text, 'data') ?? '')).toEqual(JSON.parse(data));
      }),
      { numRuns: 500 },
    );
  });
});

describe('a request body', () => {
  test.each(['[]', '"text"', 'null', '1', '{', '{"a":1}x', ''])('%p is refused', (text) => {
    expect(() => parseJsonObject(text, 10)).toThrow(/JSON/);
  });

  test('may be nested as deep as the limit and no deeper, brackets in strings left aside', () => {
    const nested = (depth: number): string => `{"a":${'['.repeat(depth)}"]]"${']'.repeat(depth)}}`;
    expect(parseJsonObject(nested(9), 10)).toBeDefined();
    expect(() => parseJsonObject(nested(10), 10)).toThrow('nested too deep');
    expect(() => parseJsonObject('['.repeat(1_000_000), 10)).toThrow('nested too deep');
  });
});
