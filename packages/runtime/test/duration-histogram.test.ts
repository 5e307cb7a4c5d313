import { expect, test } from '@jest/globals';
import { createMetrics } from '../src/metrics.ts';

const NAME = 'carillon_http_request_seconds';

test('durations are counted by their labels and by bucket, each bound included', async () => {
  const metrics = createMetrics();
  const histogram = metrics.createHistogram(NAME);
  const labels = { route: 'POST /push', status: '200' };
  for (const seconds of [0.001, 0.0011, 60, 61]) histogram.observe(seconds, labels);
  histogram.observe(0.5, { status: '400', route: 'POST /push' });
  const { text } = await metrics.expose();
  const lines = text.split('\n').filter((line) => line.includes('status="200"'));
  expect(lines.filter((line) => !line.includes('_bucket'))).toEqual([
    `${NAME}_sum{route="POST /push",status="200"} 121.0021`,
    `${NAME}_count{route="POST /push",status="200"} 4`,
  ]);
  const counts = lines.flatMap((line) => /le="([^"]+)".* (\d+)$/.exec(line)?.slice(1, 3) ?? []);
  expect(counts.slice(0, 4)).toEqual(['0.001', '1', '0.005', '2']);
  expect(counts.slice(-4)).toEqual(['60', '3', '+Inf', '4']);
  expect(text).toContain(`${NAME}_count{route="POST /push",status="400"} 1\n`);
});
