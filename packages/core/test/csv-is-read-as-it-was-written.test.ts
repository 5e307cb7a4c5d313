import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { formatCsvRecord, parseCsvRecord } from '../src/csv.ts';

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
