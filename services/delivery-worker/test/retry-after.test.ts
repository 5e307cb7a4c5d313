import { expect, test } from '@jest/globals';
import { parseRetryAfterMs } from '../src/channels/retry-after.ts';

const NOW = Date.UTC(2030, 0, 1);

test.each([
  ['120', 120_000],
  ['0', 0],
  ['Tue, 01 Jan 2030 00:01:00 GMT', 60_000],
  ['Mon, 31 Dec 2029 00:00:00 GMT', 0],
  ['soon', undefined],
  [undefined, undefined],
  [['1'], undefined],
])('Retry-After %j is %j ms', (header, expected) => {
  expect(parseRetryAfterMs(header, NOW)).toBe(expected);
});
