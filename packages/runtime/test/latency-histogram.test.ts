import { expect, test } from '@jest/globals';
import { createMetrics } from '../src/metrics.ts';

test('a batch of durations is counted by bucket, without those that are unknown', async () => {
  const metrics = createMetrics();
  const histogram = metrics.createLatencyHistogram('carillon_delivery_seconds');
  histogram.observeMilliseconds('mqtt', Uint32Array.of(0, 5, 6, 300_000, 300_001));
  histogram.observeMilliseconds('apns', Uint32Array.of(0));
  const { text } = await metrics.expose();
  const lines = text.split('\n').filter((line) => line.includes('channel="mqtt"'));
  expect(lines.filter((line) => !line.includes('_bucket'))).toEqual([
    'carillon_delivery_seconds_sum{channel="mqtt"} 600.012',
    'carillon_delivery_seconds_count{channel="mqtt"} 4',
  ]);
  const counts = lines.flatMap((line) => /le="([^"]+)".* (\d+)$/.exec(line)?.slice(1, 3) ?? []);
  expect(counts.slice(0, 6)).toEqual(['0.005', '1', '0.01', '2', '0.02', '2']);
  expect(counts.slice(-4)).toEqual(['300', '3', '+Inf', '4']);
  expect(text).toContain('carillon_delivery_seconds_count{channel="apns"} 0\n');
});
