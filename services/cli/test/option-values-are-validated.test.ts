import { describe, expect, test } from '@jest/globals';
import { createSecondsParser, parseTimestamp } from '../src/option-parsers.ts';

describe('a duration', () => {
  test.each([
    ['0', 0],
    ['90', 90],
    ['90s', 90],
    ['15m', 900],
    ['1h', 3_600],
    ['30d', 2_592_000],
  ])('%s is parsed as %d seconds', (text, value) =>
    expect(createSecondsParser(2_592_000)(text)).toBe(value),
  );

  test.each(['', 'h', '1w', '1.5h', '-1', '1 h', '31d', '1H'])('rejects "%s"', (text) => {
    expect(() => createSecondsParser(2_592_000)(text)).toThrow('It must be seconds');
  });
});

describe('a time', () => {
  test.each([
    ['1893456000', 1_893_456_000],
    ['2030-01-01T00:00:00Z', 1_893_456_000],
    ['2030-01-01T01:00:00+01:00', 1_893_456_000],
    ['2030-01-01T00:00:00.001Z', 1_893_456_001],
  ])('%s is parsed as %d', (text, value) => expect(parseTimestamp(text)).toBe(value));

  test.each(['', 'tomorrow', '2030-01-01', '2030-01-01T00:00:00', '2030-02-30T00:00:00Z', '-5'])(
    'rejects "%s"',
    (text) => expect(() => parseTimestamp(text)).toThrow('It must be a unix timestamp'),
  );
});
