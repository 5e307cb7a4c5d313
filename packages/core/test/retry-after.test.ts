import { expect, test } from '@jest/globals';
import { parseRetryAfterMs } from '../src/retry-after.ts';

const NOW = Date.UTC(2030, 0, 1);

test.each([
  ['120', 120_000],
  ['0', 0],
  ['Tue, 01 Jan 2030 00:01:00 GMT', 60_000],
  ['Mon, 31 Dec 2029 00:00:00 GMT', 0],
  ['Tuesday, 01-Jan-30 00:01:00 GMT', 60_000],
  ['Tue Jan  1 00:01:00 2030', 60_000],
  ['864000', 864_000_000],
  ['9'.repeat(400), 999_999_999_999_000],
  ['0000000000000005', 5_000],
  ['soon', undefined],
  ['-1', undefined],
  ['1.5', undefined],
  ['2030', 2_030_000],
  ['2030-01-01T00:01:00Z', undefined],
  ['Tue Jan  1 00:01:00 2030 GMT', undefined],
  ['Tue, 01 Jan 2030 00:01:00', undefined],
  ['Tue, 01 Jan 2030 00:01:00 +0100', undefined],
  ['Tue, 01 Jan 2030 (soon)', undefined],
  ['Tue, 99 Jan 2030 00:01:00 GMT', undefined],
  ['', undefined],
  [undefined, undefined],
  [['1'], undefined],
])('Retry-After %j is %j ms', (header, expected) => {
  expect(parseRetryAfterMs(header, NOW)).toBe(expected);
});
