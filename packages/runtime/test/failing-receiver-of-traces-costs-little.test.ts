import { afterEach, expect, test } from '@jest/globals';
import {
  type OtlpReceiver,
  startOtlpReceiver,
} from '../../../test/support/traces/otlp-receiver.ts';
import { until } from '../../../test/support/until.ts';
import { createOpenTelemetry } from '../src/opentelemetry.ts';
import { startTracing } from '../src/tracing.ts';

/** Spans in the queue and in the export in progress. */
const MAX_KEPT_SPANS = 4_096 + 512;
const ATTRIBUTES = { 'http.route': '/push' };

let receiver: OtlpReceiver | undefined;
afterEach(async () => {
  await receiver?.close();
  receiver = undefined;
});

/** Starts tracing of everything, and records its warnings. Its stop waits for every export. */
function start(endpoint: string) {
  const warnings: unknown[][] = [];
  const log = { warn: (...line: unknown[]) => void warnings.push(line) };
  const { tracer, stop } = createOpenTelemetry('api', { endpoint, ratio: 1 }, log);
  function recordSpans(count: number): void {
    for (let n = 0; n < count; n += 1) {
      tracer.startRequest('POST /push', undefined, performance.now(), ATTRIBUTES)?.end();
    }
  }
  return { tracer, recordSpans, warnings, stop };
}

test('a receiver that hangs makes the process keep a bounded number of spans and drop the rest', async () => {
  receiver = await startOtlpReceiver();
  receiver.hang();
  const { recordSpans, stop } = start(receiver.url);
  recordSpans(20_000);
  await until(() => receiver?.requestCount() === 1);
  receiver.resume();
  await stop();
  const count = receiver.spans().length;
  expect(count).toBeGreaterThan(4_000);
  expect(count).toBeLessThanOrEqual(MAX_KEPT_SPANS);
});

test('a receiver that is unreachable causes one warning a minute', async () => {
  const gone = await startOtlpReceiver();
  await gone.close();
  const { recordSpans, warnings, stop } = start(gone.url);
  recordSpans(600);
  await until(() => warnings.length === 1, { timeoutMs: 15_000 });
  recordSpans(600);
  await stop().catch(() => undefined);
  expect(warnings).toEqual([
    [
      { err: expect.objectContaining({ code: 'ECONNREFUSED' }), spans: expect.any(Number) },
      'exporting traces failed; these spans are lost',
    ],
  ]);
});

test('a stop exports the remaining spans, and waits 2 s at most', async () => {
  receiver = await startOtlpReceiver();
  const good = start(receiver.url);
  good.recordSpans(3);
  await good.stop();
  expect(receiver.spans()).toHaveLength(3);
  receiver.hang();
  const settings = { endpoint: receiver.url, ratio: 1 };
  const { tracer, stop } = await startTracing('api', settings, { warn: () => undefined });
  tracer?.startRequest('POST /push', undefined, performance.now(), ATTRIBUTES)?.end();
  await expect(stop()).rejects.toThrow('the receiver of traces');
  expect(receiver.spans()).toHaveLength(3);
  receiver.resume();
  await until(() => receiver?.spans().length === 4);
});

test('shared work links to the sampled traces, has no parent and is not recorded without one', async () => {
  receiver = await startOtlpReceiver();
  const { tracer, stop } = start(receiver.url);
  const contexts = Array.from({ length: 500 }, (_, n) => {
    const id = (n + 1).toString(16);
    return `00-${id.padStart(32, '0')}-${id.padStart(16, '0')}-01`;
  });
  tracer.recordShared('insert pushes', contexts, performance.now(), { 'carillon.items': 500 });
  tracer.recordShared('insert pushes', [], performance.now(), { 'carillon.items': 500 });
  tracer.recordShared('insert pushes', ['nonsense'], performance.now(), { 'carillon.items': 1 });
  await stop();
  const spans = receiver.spans();
  expect(spans).toHaveLength(1);
  expect(spans[0]).toMatchObject({ parentSpanId: '', name: 'insert pushes' });
  expect(spans[0]?.links).toHaveLength(500);
});

test("a caller's decision takes precedence over the ratio; a malformed header is ignored", async () => {
  receiver = await startOtlpReceiver();
  const settings = { endpoint: `${receiver.url}/`, ratio: 0 };
  const { tracer, stop } = await startTracing('api', settings, { warn: () => undefined });
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const begin = (header?: string) => tracer?.startRequest('POST /push', header, 0, ATTRIBUTES);
  const sampled = begin(`00-${traceId}-b7ad6b7169203331-01`);
  expect(sampled?.traceparent).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
  for (const header of [undefined, `00-${traceId}-b7ad6b7169203331-00`, 'x'.repeat(10_000)]) {
    expect(begin(header)).toBeUndefined();
  }
  sampled?.end();
  await stop();
  expect(receiver.spans()).toMatchObject([
    { traceId, parentSpanId: 'b7ad6b7169203331', service: 'carillon-api' },
  ]);
});

test('without settings there is no tracer', async () => {
  const { tracer, stop } = await startTracing('api', undefined, { warn: () => undefined });
  expect(tracer).toBeUndefined();
  await stop();
});
