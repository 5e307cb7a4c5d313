import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createOpenTelemetry } from '../../../packages/runtime/src/opentelemetry.ts';
import {
  type OtlpReceiver,
  startOtlpReceiver,
} from '../../../test/support/traces/otlp-receiver.ts';
import { until } from '../../../test/support/until.ts';
import type { Gateway } from '../src/gateway.ts';
import { createReplaySpans } from '../src/replay-spans.ts';
import {
  enqueueInboxRow,
  type GatewayUnderTest,
  startGatewayUnderTest,
} from './gateway-under-test.ts';

const EXPORTED_WITHIN = { timeoutMs: 20_000 };
const PARENT = 'b7ad6b7169203331';

let receiver: OtlpReceiver;
let tracing: ReturnType<typeof createOpenTelemetry>;
let bench: GatewayUnderTest;
let gateway: Gateway;
beforeAll(async () => {
  receiver = await startOtlpReceiver();
  const log = { warn: () => undefined };
  tracing = createOpenTelemetry('device-gateway', { endpoint: receiver.url, ratio: 1 }, log);
  bench = await startGatewayUnderTest();
  gateway = await bench.startGateway({ tracer: tracing.tracer });
});
afterAll(async () => {
  await bench.stop();
  await tracing.stop();
  await receiver.close();
});

async function createWaitingPush(token: string, traceId: string): Promise<string> {
  const push = await bench.createPush(token, { trace: `00-${traceId}-${PARENT}-01` });
  await enqueueInboxRow(bench, token, push);
  return push.push;
}

function untilSpan(traceId: string) {
  const find = () => receiver.spans().find((span) => span.traceId === traceId);
  return until(find, { ...EXPORTED_WITHIN, what: 'the span is exported' });
}

test("a span lasts from the write to the PUBACK, in the push's trace", async () => {
  const traceId = '1'.repeat(32);
  const device = await bench.registerDevice(gateway);
  const push = await createWaitingPush(device.token, traceId);
  const untraced = await bench.createPush(device.token);
  await enqueueInboxRow(bench, device.token, untraced);
  await device.connect();
  await device.waitFor(2);
  expect(await untilSpan(traceId)).toMatchObject({
    name: 'replay inbox',
    service: 'carillon-device-gateway',
    parentSpanId: PARENT,
    attributes: {
      'carillon.push.id': push,
      'carillon.channel': 'mqtt',
      'carillon.result.acknowledged': 1,
    },
  });
  await device.disconnect();
  expect(receiver.spans()).toHaveLength(1);
  expect(receiver.raw()).not.toContain(device.token);
});

test('a span without a PUBACK ends with the connection', async () => {
  const traceId = '2'.repeat(32);
  const device = await bench.registerDevice(gateway);
  await createWaitingPush(device.token, traceId);
  device.holdReceipts();
  await device.connect();
  await device.waitFor(1);
  device.cut();
  expect((await untilSpan(traceId)).attributes).toMatchObject({ 'carillon.result.unacked': 1 });
});

test('devices that reconnect together start at most 50 spans a second', () => {
  let now = 10_000;
  const startSpan = createReplaySpans(tracing.tracer, () => now);
  const push = { _id: '0'.repeat(24), trace: `00-${'3'.repeat(32)}-${PARENT}-01` };
  const startMany = () => Array.from({ length: 60 }, () => startSpan(push)).filter(Boolean).length;
  expect(startMany()).toBe(50);
  now += 999;
  expect(startMany()).toBe(0);
  now += 1;
  expect(startMany()).toBe(50);
});
