import { describe, expect, test } from '@jest/globals';
import {
  countComplete,
  findTicks,
  findTimeTicks,
  splitRuns,
  toPath,
} from '../src/lib/chart-scale.ts';
import { selectRange } from '../src/lib/overview-range.ts';

describe('ticks of values', () => {
  test.each([
    [0, [0, 1]],
    [1, [0, 1]],
    [3, [0, 1, 2, 3]],
    [7, [0, 2, 4, 6, 8]],
    [40, [0, 10, 20, 30, 40]],
    [1_234, [0, 500, 1_000, 1_500]],
    [999_999, [0, 250_000, 500_000, 750_000, 1_000_000]],
  ])('of counts up to %d', (max, ticks) => {
    expect(findTicks(max, 4, 1)).toEqual(ticks);
  });

  test('of values that are not counts may be less than 1', () => {
    expect(findTicks(0.7, 4)).toEqual([0, 0.2, 0.4, 0.6, 0.8]);
  });

  test.each([0, 1, 9, 12, 87, 1_001, 5e6])('reach %d in at most four steps', (max) => {
    const ticks = findTicks(max, 4, 1);
    expect(ticks.at(-1)).toBeGreaterThanOrEqual(max);
    expect(ticks.length).toBeLessThanOrEqual(5);
  });
});

test('ticks of an hour are at round minutes', () => {
  const start = Date.UTC(2026, 10, 23, 7, 53);
  const hour = Array.from({ length: 60 }, (_, n) => start + n * 60_000);
  const labels = findTimeTicks(hour, 8).map((at) => new Date(at).getUTCMinutes());
  expect(labels).toEqual([0, 10, 20, 30, 40, 50]);
});

test('a line is interrupted where there is no value', () => {
  const at = (x: number) => ({ x, y: 1 });
  expect(splitRuns([undefined, at(1), at(2), undefined, at(4)])).toEqual([[at(1), at(2)], [at(4)]]);
  expect(toPath([at(1), at(2)])).toBe('M1.0 1.0L2.0 1.0');
});

test.each([
  ['in the middle of a minute, the current one is left out', 30_000, 4],
  ['at the beginning of a minute, the previous one may lack counts', 5_999, 3],
  ['six seconds later, the previous minute is complete', 6_000, 4],
  ['figures that were read later are complete', 66_000, 5],
])('lines end before incomplete minutes: %s', (_case, msIntoMinute, complete) => {
  const start = Date.UTC(2026, 10, 23, 7, 53);
  const times = Array.from({ length: 5 }, (_, n) => start + n * 60_000);
  expect(countComplete(times, start + 4 * 60_000 + msIntoMinute)).toBe(complete);
});

test('neither the first minute nor an empty range has complete figures', () => {
  expect(countComplete([60_000], 90_000)).toBe(0);
  expect(countComplete([], 90_000)).toBe(0);
});

test('a range of the overview consists of its last minutes and their latency', () => {
  const minute = (at: number) => ({
    ...{ at, accepted: 1, delivered: 1, sent: 0, failed: {}, failureReasons: {} },
    latency: { p50Ms: 1, p99Ms: 2 },
  });
  const overview = {
    ...{
      readAt: 0,
      problems: [],
      scope: 'installation' as const,
      since: 0,
      channels: [],
      gateways: [],
      apps: [],
    },
    minutes: Array.from({ length: 60 }, (_, n) => minute(n)),
    latency: { p50Ms: 60, p99Ms: 60 },
    latencies: { 15: { p50Ms: 15, p99Ms: 15 } },
    ...{ refusedCredentials: [], refusedCredentialsAt: 0 },
  };
  const shown = selectRange(overview, '15m');
  expect(shown.minutes.map(({ at }) => at)).toEqual(Array.from({ length: 15 }, (_, n) => 45 + n));
  expect(shown.latency).toEqual({ p50Ms: 15, p99Ms: 15 });
});
