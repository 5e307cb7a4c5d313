import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createOpenTelemetry } from '../../../packages/runtime/src/opentelemetry.ts';
import type { MqttDevice } from '../../../test/support/mqtt-device.ts';
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
  type TestPush,
} from './gateway-under-test.ts';

/** More than half of the window: without receipts the inbox is not read further. */
const INBOX_ROWS = 10;
const LARGE_INBOX_ROWS = 10_000;
const PUSHES_PER_SECOND = 20;
/** Pushes in a row that were acknowledged without an inbox row: the connection is live. */
const LIVE_PUSHES = 20;

let bench: GatewayUnderTest;
beforeAll(async () => {
  bench = await startGatewayUnderTest();
});
afterAll(() => bench.stop());

const listRows = ({ token }: MqttDevice) => bench.store.inbox.listRows(token);
const untilEmpty = (device: MqttDevice) => until(async () => (await listRows(device)).length === 0);

/** Connects a device and waits until its connection is live. */
async function liveDevice(): Promise<MqttDevice> {
  const device = await bench.registerDevice();
  await device.connect();
  await bench.untilAcknowledged(await bench.createPush(device.token), device.token);
  device.arrivals.length = 0;
  return device;
}

/** Connects a device whose inbox is read no further until it releases the receipts. */
async function syncingDevice(): Promise<MqttDevice> {
  const device = await bench.registerDevice();
  await enqueueMany(device.token, INBOX_ROWS);
  device.holdReceipts();
  await device.connect();
  await device.waitFor(INBOX_ROWS);
  return device;
}

/** Writes rows of as many new pushes to an inbox. Returns their ids in order. */
async function enqueueMany(token: string, count: number): Promise<string[]> {
  const pushes = await Promise.all(Array.from({ length: count }, () => bench.createPush(token)));
  const rows = pushes.map(({ push, work }) => ({ token, push, work, position: 0, sent: false }));
  await bench.store.inbox.enqueue(rows);
  return rows.map(({ push }) => push).sort();
}

/** Creates a push with a newer id: ids sort by their millisecond. */
async function nextPush(
  token: string,
  older: TestPush,
  options?: { collapse: string },
): Promise<TestPush> {
  const time = Number.parseInt(older.push.slice(0, 12), 16);
  await until(() => Math.floor(bench.store.clock.now()) > time);
  return bench.createPush(token, options);
}

describe('the inbox', () => {
  test('is sent in the order of the pushes, each push once, and is empty after the receipts', async () => {
    const device = await bench.registerDevice();
    const ids = await enqueueMany(device.token, 40);
    await device.connect();
    const arrivals = await device.waitFor(40);
    expect(arrivals.map(({ topic }) => topic)).toEqual(ids);
    await untilEmpty(device);
    await until(() => ids.every((id) => bench.checkedPushes.includes(id)));
    await device.disconnect();
    expect(device.arrivals).toHaveLength(40);
  });

  test('sets DUP for a push that was sent before', async () => {
    const device = await bench.registerDevice();
    await enqueueInboxRow(bench, device.token, await bench.createPush(device.token), true);
    await device.connect();
    expect(await device.waitFor(1)).toMatchObject([{ dup: true }]);
    await device.disconnect();
  });

  test('loses rows of pushes that ended before a frozen worker wrote them, and keeps those that an end counts', async () => {
    const { store } = bench;
    const device = await bench.registerDevice();
    const pushes = {
      purged: { ...(await bench.createPush(device.token)), push: '0'.repeat(24) },
      deleted: await bench.createPush(device.token),
      ending: await bench.createPush(device.token),
      open: await bench.createPush(device.token),
    };
    const appOf = async (push: string) => (await store.pushes.findApp(push)) ?? '';
    for (const { push } of [pushes.deleted, pushes.ending])
      expect(await store.pushCompletion.markDeleted(await appOf(push), push)).toBe(true);
    await store.pushCompletion.completeIfDone(pushes.deleted.push, 0);
    for (const push of Object.values(pushes)) await enqueueInboxRow(bench, device.token, push);
    await device.connect();
    expect(await device.waitFor(1)).toMatchObject([{ topic: pushes.open.push }]);
    const listPushes = async () => (await listRows(device)).map(({ push }) => push);
    await until(async () => !(await listPushes()).includes(pushes.open.push));
    expect(await listPushes()).toEqual([pushes.ending.push]);
    await store.pushCompletion.completeIfDone(pushes.ending.push, 0);
    expect(await listPushes()).toEqual([]);
    await device.disconnect();
    expect(device.arrivals).toHaveLength(1);
  });

  test('is read again after the notice of a worker that a row was written', async () => {
    const device = await bench.registerDevice();
    await device.connect();
    await until(() => bench.isOnline(device.token));
    const push = await bench.createPush(device.token);
    await enqueueInboxRow(bench, device.token, push);
    await bench.notify(push, device.token);
    await device.waitFor(1);
    await device.disconnect();
  });

  test('is read after Redis lost its data, because workers found the device offline', async () => {
    const device = await bench.registerDevice();
    await device.connect();
    await until(() => bench.isOnline(device.token));
    await bench.redis.flushall();
    await enqueueInboxRow(bench, device.token, await bench.createPush(device.token));
    await device.waitFor(1);
    await until(() => bench.isOnline(device.token));
    await device.disconnect();
  });
});

describe('a live delivery', () => {
  test('that was acknowledged before a hundred others is not sent again, nor is its inbox row', async () => {
    const device = await liveDevice();
    const push = await bench.createPush(device.token);
    await bench.dispatch(push, device.token);
    for (let others = 0; others < 100; others += 1)
      await bench.dispatch(await bench.createPush(device.token), device.token);
    expect(await bench.dispatch(push, device.token)).toBe('acknowledged');
    await enqueueInboxRow(bench, device.token, push, true);
    await bench.notify(push, device.token);
    await untilEmpty(device);
    expect(device.arrivals.filter(({ topic }) => topic === push.push)).toHaveLength(1);
    await device.disconnect();
  });

  test('whose connection breaks after the write is unacknowledged', async () => {
    const device = await liveDevice();
    const push = await bench.createPush(device.token);
    device.holdReceipts();
    const result = bench.dispatch(push, device.token);
    await device.waitFor(1);
    device.cut();
    expect(await result).toBe('unacked');
  });

  test('after its deadline is not sent', async () => {
    const device = await liveDevice();
    const push = await bench.createPush(device.token);
    expect(await bench.dispatch(push, device.token, -10)).toBe('not-sent');
    expect(device.arrivals).toEqual([]);
    await device.disconnect();
  });

  test('that is older than the newest of its collapse key is superseded', async () => {
    const device = await liveDevice();
    const older = await bench.createPush(device.token, { collapse: 'key' });
    const newer = await nextPush(device.token, older, { collapse: 'key' });
    expect(await bench.dispatch(newer, device.token)).toBe('acknowledged');
    expect(await bench.dispatch(older, device.token)).toBe('superseded');
    expect(device.arrivals).toMatchObject([{ topic: newer.push }]);
    await device.disconnect();
  });

  test('to a device with sixteen pushes in flight is rejected, and is sent from the inbox', async () => {
    const device = await liveDevice();
    const results = await fillWindow(device);
    const last = await bench.createPush(device.token);
    expect(await bench.dispatch(last, device.token)).toBe('backpressure');
    await enqueueInboxRow(bench, device.token, last);
    expect(await bench.dispatch(await bench.createPush(device.token), device.token)).toBe(
      'syncing',
    );
    device.releaseReceipts();
    expect((await device.waitFor(17))[16]).toMatchObject({ topic: last.push });
    await Promise.all(results);
    await device.disconnect();
  });

  test('without an inbox row is rejected, and the inbox is not read', async () => {
    const device = await liveDevice();
    const results = await fillWindow(device);
    const last: TestPush = { ...(await bench.createPush(device.token)), hasNoRow: true };
    expect(await bench.dispatch(last, device.token)).toBe('backpressure');
    device.releaseReceipts();
    await Promise.all(results);
    expect(await bench.dispatch(last, device.token)).toBe('acknowledged');
    await device.disconnect();
  });

  test('without an inbox row does not keep a connection from going live', async () => {
    const device = await syncingDevice();
    const push: TestPush = { ...(await bench.createPush(device.token)), hasNoRow: true };
    expect(await bench.dispatch(push, device.token)).toBe('syncing');
    device.releaseReceipts();
    // Each dispatch would renew the wait for its row.
    await until(async () => (await bench.dispatch(push, device.token)) === 'acknowledged');
    await device.disconnect();
  });
});

/** Dispatches as many pushes as a device may have in flight; the device holds its receipts. */
async function fillWindow(device: MqttDevice): Promise<Promise<string | undefined>[]> {
  device.holdReceipts();
  const results: Promise<string | undefined>[] = [];
  for (let n = 0; n < 16; n += 1) {
    results.push(bench.dispatch(await bench.createPush(device.token), device.token));
  }
  await device.waitFor(16);
  return results;
}

test('a push waits for the rows of earlier ones, of which one is replaced and one is never written', async () => {
  const device = await syncingDevice();
  const replaced = await bench.createPush(device.token, { collapse: 'key' });
  const deleted = await nextPush(device.token, replaced);
  const newer = await nextPush(device.token, deleted, { collapse: 'key' });
  for (const push of [replaced, deleted, newer])
    expect(await bench.dispatch(push, device.token)).toBe('syncing');
  device.releaseReceipts();
  await untilEmpty(device);
  const last = await nextPush(device.token, newer);
  expect(await bench.dispatch(last, device.token)).toBe('syncing');
  for (const push of [newer, replaced, last]) await enqueueInboxRow(bench, device.token, push);
  await bench.notify(newer, device.token);
  await device.waitFor(INBOX_ROWS + 2);
  const live = await nextPush(device.token, last);
  await bench.untilAcknowledged(live, device.token);
  const topics = device.arrivals.slice(INBOX_ROWS).map(({ topic }) => topic);
  expect(topics).toEqual([newer, last, live].map(({ push }) => push));
  await device.disconnect();
});

test('a device that reconnects to 10,000 rows gets them and 20 new pushes a second in order, each once', async () => {
  // Over plain TCP the device's kernel holds back receipts for 40 ms at a time.
  const device = await bench.registerDevice(bench.gateway, { scheme: 'ws' });
  const ids = await enqueueMany(device.token, LARGE_INBOX_ROWS);
  await device.connect();
  await until(() => bench.isOnline(device.token));
  const results: (string | undefined)[] = [];
  while (!isLive(results)) {
    await sleep(1_000 / PUSHES_PER_SECOND);
    const push = await bench.createPush(device.token);
    ids.push(push.push);
    results.push(await deliver(device, push));
  }
  expect(results).toContain('syncing');
  await device.waitFor(ids.length);
  await untilEmpty(device);
  expect(device.arrivals.map(({ topic }) => topic)).toEqual(ids);
  await device.disconnect();
});

/** Dispatches a push and writes its row if the device has not acknowledged it, as a worker does. */
async function deliver({ token }: MqttDevice, push: TestPush): Promise<string | undefined> {
  const result = await bench.dispatch(push, token);
  if (result === 'acknowledged') return result;
  await enqueueInboxRow(bench, token, push, result === 'unacked');
  await bench.notify(push, token);
  return result;
}

function isLive(results: readonly (string | undefined)[]): boolean {
  const last = results.slice(-LIVE_PUSHES);
  return last.length === LIVE_PUSHES && last.every((result) => result === 'acknowledged');
}

describe('a replay with tracing', () => {
  const PARENT = 'b7ad6b7169203331';

  let receiver: OtlpReceiver;
  let tracing: ReturnType<typeof createOpenTelemetry>;
  let gateway: Gateway;
  beforeAll(async () => {
    receiver = await startOtlpReceiver();
    const log = { warn: () => undefined };
    tracing = createOpenTelemetry('device-gateway', { endpoint: receiver.url, ratio: 1 }, log);
    gateway = await bench.startGateway({ tracer: tracing.tracer });
  });
  afterAll(async () => {
    await gateway.stop();
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
    return until(find, { what: 'the span is exported' });
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
    const startMany = () =>
      Array.from({ length: 60 }, () => startSpan(push)).filter(Boolean).length;
    expect(startMany()).toBe(50);
    now += 999;
    expect(startMany()).toBe(0);
    now += 1;
    expect(startMany()).toBe(50);
  });
});
