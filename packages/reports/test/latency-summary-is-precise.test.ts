import { packUint32s } from '@carillon/store/bytes';
import { expect, test } from '@jest/globals';
import { createLatencySummary } from '../src/latency-summary.ts';

function summarize(latenciesMs: readonly number[]) {
  const summary = createLatencySummary();
  summary.addPacked(packUint32s(Uint32Array.from(latenciesMs)), () => true);
  return summary.end();
}

test('without a receipt there is no summary', () => {
  expect(summarize([])).toBeUndefined();
  expect(summarize([0, 0])).toBeUndefined();
});

test('short latencies are exact', () => {
  const latencies = Array.from({ length: 200 }, (_, n) => n + 1);
  const expected = { count: 200, min: 1, p50: 100, p90: 180, p99: 198, max: 200 };
  expect(summarize(latencies)).toEqual(expected);
});

test('long latencies are at most one percent too high, and never above the longest', () => {
  const days = 86_400_000;
  const latencies = Array.from(
    { length: 5_000 },
    (_, n) => Math.round(1.004 ** n % (40 * days)) + 1,
  );
  const sorted = latencies.toSorted((a, b) => a - b);
  const summary = summarize(latencies);
  for (const [name, share] of [
    ['p50', 0.5],
    ['p90', 0.9],
    ['p99', 0.99],
  ] as const) {
    const exact = sorted[Math.ceil(sorted.length * share) - 1] ?? 0;
    expect(summary?.[name]).toBeGreaterThanOrEqual(exact);
    expect(summary?.[name]).toBeLessThanOrEqual(exact * 1.01);
  }
  expect(summary?.max).toBe(sorted.at(-1));
  expect(summarize([2 ** 32 - 1])?.p99).toBe(2 ** 32 - 1);
});

test('latencies of up to a year are added one by one', () => {
  const summary = createLatencySummary();
  const year = 365 * 86_400_000;
  for (const latencyMs of [1, 2 ** 32, 2 ** 34 - 1, year]) summary.add(latencyMs);
  expect(summary.end()).toMatchObject({ count: 4, min: 1, p90: year, max: year });
  const p50 = summary.end()?.p50 ?? 0;
  expect(p50).toBeGreaterThanOrEqual(2 ** 32);
  expect(p50).toBeLessThanOrEqual(2 ** 32 * 1.01);
});
