import { createLatencyHistogram, LATENCY_BOUNDS_MS } from '@carillon/runtime/latency-histogram';
import { expect, test } from '@jest/globals';
import { estimateQuantile } from '../src/live/overview.ts';

function estimate(latenciesMs: readonly number[], quantile: number) {
  const histogram = createLatencyHistogram('x', 'x', 'channel');
  const half = Math.floor(latenciesMs.length / 2);
  histogram.observeMilliseconds('mqtt', Uint32Array.from(latenciesMs.slice(0, half)));
  histogram.observeMilliseconds('apns', Uint32Array.from(latenciesMs.slice(half)));
  const counts = histogram.readBuckets().map(({ boundMs, count }) => [boundMs, count] as const);
  // Redis holds no field for an empty bucket.
  return estimateQuantile(new Map(counts.filter(([, count]) => count > 0)), quantile);
}

/** The bounds between which a duration is counted. */
function bucketOf(ms: number): [lower: number, upper: number] {
  const at = LATENCY_BOUNDS_MS.findIndex((bound) => ms <= bound);
  return [LATENCY_BOUNDS_MS[at - 1] ?? 0, LATENCY_BOUNDS_MS[at] ?? Number.POSITIVE_INFINITY];
}

/** Latencies that are the same in each run, most of them short. */
const manyLatencies = Array.from({ length: 5_000 }, (_, n) =>
  Math.max(1, Math.round(((n * 7_919) % 5_000) ** 2 / 400)),
);

test.each([0.5, 0.9, 0.99])('the quantile %p of many latencies', (quantile) => {
  const exact = manyLatencies.toSorted((a, b) => a - b)[Math.ceil(5_000 * quantile) - 1] ?? 0;
  const [lower, upper] = bucketOf(exact);
  const estimated = estimate(manyLatencies, quantile);
  expect(estimated).toBeGreaterThanOrEqual(lower);
  expect(estimated).toBeLessThanOrEqual(upper);
});

test('of one latency, of none, and of latencies above the last bound', () => {
  expect(estimate([7], 0.5)).toBeGreaterThanOrEqual(5);
  expect(estimate([7], 0.99)).toBeLessThanOrEqual(10);
  expect(estimate([], 0.5)).toBeNull();
  expect(estimate([400_000, 500_000], 0.99)).toBe(300_000);
});
