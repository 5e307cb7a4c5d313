import { expect, test } from '@jest/globals';
import { describeDiskSpace } from '../src/doctor.ts';

const GIB = 1_073_741_824;

test.each([
  [0.9, 4],
  [4, 100],
  [9, 2_000],
])('%d of %d GiB free fails the check', (free, total) => {
  expect(() => describeDiskSpace({ free: free * GIB, total: total * GIB })).toThrow(
    'writes will soon',
  );
});

test.each([
  [1.1, 4],
  [6, 100],
  [11, 2_000],
])('%d of %d GiB free passes the check', (free, total) => {
  expect(describeDiskSpace({ free: free * GIB, total: total * GIB })).toMatch(/GiB free$/);
});
