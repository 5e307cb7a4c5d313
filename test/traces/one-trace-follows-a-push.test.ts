import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { type Sent, send } from '../support/end-to-end/pushes.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { registerIphone } from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal } from '../support/providers/outcomes.ts';
import { registerDevice } from '../support/register-device.ts';
import {
  type OtlpReceiver,
  type ReceivedSpan,
  startOtlpReceiver,
} from '../support/traces/otlp-receiver.ts';
import { until } from '../support/until.ts';

const TOPIC = 'canary-topic';
const PUSHES = 200;

let receiver: OtlpReceiver;
let fixture: ProviderFixture;
let tenant: TestTenant;
let device: MqttDevice;
beforeAll(async () => {
  receiver = await startOtlpReceiver();
  fixture = await openProviderFixture({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url } });
  tenant = await fixture.tenant();
  device = await newMqttDevice(tenant.dev);
  await device.connect();
});
afterAll(async () => {
  await device?.disconnect();
  await fixture?.close();
  await receiver?.close();
});

const spansOf = (push: { id: string }): ReceivedSpan[] =>
  receiver.spans().filter(({ attributes }) => attributes['carillon.push.id'] === push.id);
const named = (spans: readonly ReceivedSpan[], name: string): ReceivedSpan[] =>
  spans.filter((span) => span.name === name);
const sharedSpansOf = ({ traceId }: ReceivedSpan): ReceivedSpan[] =>
  receiver.spans().filter(({ links }) => links.some((link) => link.traceId === traceId));

/** Waits until the spans of a push with these names have arrived, each as often as it is listed. */
async function untilSpans(push: { id: string }, names: string[]): Promise<ReceivedSpan[]> {
  const arrived = () => {
    const spans = spansOf(push);
    return spans.length >= names.length && spans;
  };
  const spans = await until(arrived, { what: `spans ${names.join()}` });
  expect(spans.map(({ name }) => name).sort()).toEqual([...names].sort());
  expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
  return names.map((name) => spans.find((span) => span.name === name) as ReceivedSpan);
}

function sendWithHeader(traceparent: string): Promise<Sent> {
  const { api, apiKey } = tenant.dev;
  return fetch(new URL(`/push?api_key=${apiKey}`, api), {
    method: 'POST',
    headers: { 'content-type': 'application/json', traceparent },
    body: JSON.stringify({ to: device.token, data: { mark: randomUUID() } }),
  }).then((response) => response.json() as Promise<Sent>);
}

test('from POST /push to the PUBACK, over API, worker and gateway', async () => {
  const push = await send(tenant, device.token);
  const names = ['POST /push', 'deliver batch', 'dispatch', 'await receipts'];
  const [request, batch, dispatch, receipts] = (await untilSpans(push, names)) as [
    ReceivedSpan,
    ReceivedSpan,
    ReceivedSpan,
    ReceivedSpan,
  ];
  expect(request).toMatchObject({
    service: 'carillon-api',
    parentSpanId: '',
    attributes: { 'http.route': '/push', 'carillon.recipients': 1 },
  });
  expect(batch).toMatchObject({
    service: 'carillon-delivery-worker',
    parentSpanId: request.spanId,
    attributes: {
      'carillon.channel': 'mqtt',
      'carillon.batch.end': 'settled',
      'carillon.outcome.delivered': 1,
    },
  });
  expect(dispatch).toMatchObject({
    parentSpanId: batch.spanId,
    attributes: { 'carillon.result.acknowledged': 1 },
    // The worker got it with the gateway's reply.
    links: [{ traceId: request.traceId, spanId: receipts.spanId }],
  });
  expect(receipts).toMatchObject({
    service: 'carillon-device-gateway',
    parentSpanId: dispatch.spanId,
    attributes: { 'carillon.result.acknowledged': 1 },
  });
  expect(receipts.endMs).toBeGreaterThanOrEqual(receipts.startMs);
  expect((await fixture.store.pushes.inspect(push.id))?.trace).toBe(
    `00-${request.traceId}-${request.spanId}-01`,
  );
});

test('shared jobs and writes of 200 pushes at once: linked, and without a parent', async () => {
  const pushes = await Promise.all(
    Array.from({ length: PUSHES }, () => send(tenant, device.token)),
  );
  const requests = await until(() => {
    const found = pushes.flatMap((push) => named(spansOf(push), 'POST /push'));
    return found.length === PUSHES && found;
  });
  expect(new Set(requests.map(({ traceId }) => traceId)).size).toBe(PUSHES);
  function isComplete(push: Sent): boolean {
    const [request] = named(spansOf(push), 'POST /push');
    const found = new Set(request && sharedSpansOf(request).map(({ name }) => name));
    return ['insert pushes', 'claim batches', 'settle batches'].every((name) => found.has(name));
  }
  await until(() => pushes.every(isComplete), { everyMs: 200 });
  const shared = [...new Set(requests.flatMap(sharedSpansOf))].filter(
    ({ name }) => name !== 'dispatch',
  );
  for (const { parentSpanId, traceId } of shared) {
    expect(parentSpanId).toBe('');
    expect(requests.map((request) => request.traceId)).not.toContain(traceId);
  }
  for (const name of ['insert pushes', 'send job']) {
    const sizes = named(shared, name).map(({ links }) => links.length);
    expect(Math.max(...sizes)).toBeGreaterThan(1);
  }
  expect(Math.max(...named(shared, 'send job').map(({ links }) => links.length))).toBeLessThan(51);
});

test('through a provider: one span for the batch, with counts', async () => {
  const iphone = await registerIphone(tenant.dev);
  const push = await send(tenant, iphone.token);
  await untilFinal(fixture.store, push, iphone.token);
  const names = ['POST /push', 'deliver batch', 'send to provider'];
  const [, batch, provider] = await untilSpans(push, names);
  expect(batch?.attributes).toMatchObject({ 'carillon.outcome.sent': 1 });
  expect(provider).toMatchObject({
    parentSpanId: batch?.spanId,
    attributes: {
      'carillon.channel': 'apns',
      'carillon.recipients': 1,
      'carillon.result.sent': 1,
    },
  });
  expect(receiver.raw()).not.toContain(iphone.address);
});

test('two channels: a fan-out and a batch for each', async () => {
  const iphone = await registerIphone(tenant.dev);
  const offline = await registerDevice(tenant.dev);
  for (const { token } of [iphone, offline]) {
    await tenant.api('POST', '/topics/subscribe', { token, topics: [TOPIC] });
  }
  const push = await send(tenant, `/topics/${TOPIC}`);
  await until(
    () => named(spansOf(push), 'deliver batch').length === 2 && named(spansOf(push), 'fan out')[0],
  );
  const [request] = named(spansOf(push), 'POST /push');
  for (const name of ['fan out', 'deliver batch']) {
    for (const { parentSpanId } of named(spansOf(push), name))
      expect(parentSpanId).toBe(request?.spanId);
  }
});

test("a caller's trace is continued with its sampling decision", async () => {
  const traceId = randomUUID().replaceAll('-', '');
  const sampled = await sendWithHeader(`00-${traceId}-b7ad6b7169203331-01`);
  const unsampled = await sendWithHeader(`00-${traceId}-b7ad6b7169203331-00`);
  expect((await fixture.store.pushes.inspect(unsampled.id))?.trace).toBeUndefined();
  const names = ['POST /push', 'deliver batch', 'dispatch', 'await receipts'];
  const [request] = await untilSpans(sampled, names);
  expect(request).toMatchObject({ traceId, parentSpanId: 'b7ad6b7169203331' });
  expect(spansOf(unsampled)).toEqual([]);
});

test('an error is marked, without its values', async () => {
  await tenant.api('POST', '/push', { to: 'canary-recipient', data: {} });
  const failed = await until(() => receiver.spans().find((span) => span.hasFailed));
  expect(failed.attributes).toMatchObject({ 'error.type': 'NO_RECIPIENTS' });
});

test('no payload, token, key or topic reaches the receiver', () => {
  const text = receiver.raw();
  const { apiKey, app } = tenant.dev;
  const marks = device.arrivals.map(({ payload }) => JSON.parse(payload).mark as string);
  expect(marks.length).toBeGreaterThan(PUSHES);
  for (const secret of [device.token, device.auth, apiKey, app, TOPIC, 'canary', ...marks]) {
    expect(text).not.toContain(secret);
  }
});

test('a receiver that hangs disturbs no push', async () => {
  receiver.hang();
  const before = device.arrivals.length;
  const requestsBefore = receiver.requestCount();
  await Promise.all(Array.from({ length: 50 }, () => send(tenant, device.token)));
  await device.waitFor(before + 50);
  await until(() => receiver.requestCount() > requestsBefore);
  const warning = 'exporting traces failed';
  await until(() => fixture.stack.readLog('api').includes(warning));
  const push = await send(tenant, device.token);
  expect(await untilFinal(fixture.store, push, device.token)).toEqual({ outcome: 'delivered' });
  expect(fixture.stack.readLog('api').split(warning)).toHaveLength(2);
  receiver.resume();
});
