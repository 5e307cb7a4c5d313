import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { InboxDocument } from '../../packages/store/src/documents.ts';
import { inboxRange } from '../../packages/store/src/inbox.ts';
import { createDevicePool, type DevicePool } from '../support/faults/device-pool.ts';
import { untilAllArrived } from '../support/faults/expect-complete.ts';
import { listUnreadyDuring } from '../support/faults/list-unready.ts';
import { sendPush } from '../support/faults/pushes.ts';
import {
  type StackBehindProxy,
  startStackBehindProxy,
} from '../support/faults/stack-behind-proxy.ts';
import { expectWholeOrAbsent, sendDuring } from '../support/faults/steady-pushes.ts';
import { readMetric } from '../support/metric-values.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { type ProviderDevice, registerIphone } from '../support/providers/devices.ts';
import { openSandbox } from '../support/providers/sandbox.ts';
import { findProcess } from '../support/stack/dev-file.ts';
import { until } from '../support/until.ts';

/** Of each response to every service. With the last one no read of a push's state is recent enough to send it (G8). */
const DELAYS_MS = { short: 300, usual: 500, heldBack: 1_000 };
const LOAD = { perSecond: 5, perPush: 3 };
const PUSHES = { all: 40, replayed: 40, heldBack: 15 };
const PROVIDER_PUSHES = 5;
const SLOW_MS = 60_000;
const STORED_PUSHES = 3;
/** Results in a row that show that a connection is live. */
const LIVE_RESULTS = 10;
const DELETED_PUSHES = 30;
const DELETED_EVERY_MS = 100;
/** Guarantee G8. */
const LAST_SENT_MS = 1_000;
/** Time in which a push that is still being delivered arrives. */
const SENT_AFTER_MS = 6_000;

let fixture: StackBehindProxy;
let mongo: TestMongo;
/** All are registered before MongoDB is slow: for a minute after an outage no device can register. */
let pool: DevicePool;
let offline: MqttDevice;
let iphone: ProviderDevice;
beforeAll(async () => {
  fixture = await startStackBehindProxy();
  mongo = await openMongo(fixture.stack.dev);
  pool = await createDevicePool(fixture.stack, mongo, { registered: 10, real: 10 });
  offline = await newMqttDevice(fixture.stack.dev);
  iphone = await registerIphone(fixture.stack.dev);
});
afterAll(async () => {
  await Promise.all((pool?.devices ?? []).map((device) => device.disconnect()));
  await mongo?.close();
  await fixture?.stop();
});

test.each([DELAYS_MS.short, DELAYS_MS.usual])(
  'by %d ms a response: pushes are accepted and delivered meanwhile',
  async (delayMs) => {
    const { stack, proxy } = fixture;
    proxy.delayResponses(delayMs);
    const unready = await listUnreadyDuring(stack.dev.processes, async () => {
      const sent = await sendDuring(stack, pool.devices, LOAD, (load) =>
        load.untilAccepted(PUSHES.all),
      );
      expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
      // A timer may be early by a millisecond.
      expect(Math.min(...sent.map(({ tookMs }) => tookMs))).toBeGreaterThan(0.9 * delayMs);
      await expectWholeOrAbsent(`MongoDB slower by ${delayMs} ms`, { stack, mongo, pool }, sent);
    }).finally(proxy.restore);
    expect(unready).toEqual([]);
  },
  180_000,
);

/** Waits until the gateway has written several pushes in a row at once: none of them has an inbox row. */
async function untilLive(): Promise<void> {
  const { ops } = findProcess(fixture.stack.dev, 'device-gateway', 0);
  const readResults = () => readMetric(ops, 'carillon_gateway_answers_total');
  let before = await readResults();
  const isLive = async () => {
    const now = await readResults();
    const count = (result: string) => (now[result] ?? 0) - (before[result] ?? 0);
    if (count('syncing') > 0) before = now;
    return count('acknowledged') >= LIVE_RESULTS;
  };
  await until(isLive, { timeoutMs: SLOW_MS, everyMs: 200, what: 'a live connection' });
}

test('by 500 ms a response: a device that connects gets its pushes though they keep arriving, and live once it is faster', async () => {
  const { stack, proxy } = fixture;
  const device = offline;
  proxy.delayResponses(DELAYS_MS.usual);
  try {
    const sent = await sendDuring(stack, [device], { ...LOAD, perPush: 1 }, async () => {
      const hasInbox = async () => (await countInboxRows(mongo, device)) >= STORED_PUSHES;
      await until(hasInbox, { timeoutMs: SLOW_MS, what: 'pushes in the inbox' });
      await device.connect();
      await device.waitFor(PUSHES.replayed, { timeoutMs: SLOW_MS });
      proxy.restore();
      await untilLive();
    });
    const accepted = sent.flatMap((one) => (one.isAccepted ? [one.push] : []));
    expect(accepted).toHaveLength(sent.length);
    await untilAllArrived([device], accepted);
    // Guarantees G3 and G4.
    expect(device.arrivals).toHaveLength(sent.length);
  } finally {
    proxy.restore();
    await device.disconnect();
  }
});

test('by 500 ms a response: a deleted push is not sent after a second', async () => {
  const { stack, proxy } = fixture;
  const [device] = pool.devices;
  if (device === undefined) throw new Error('no device');
  proxy.delayResponses(DELAYS_MS.usual);
  async function sendAndDelete(_: unknown, n: number): Promise<string[]> {
    await sleep(n * DELETED_EVERY_MS);
    const { id, payload } = await sendPush(stack, device?.token ?? '');
    // At each stage of its delivery.
    await sleep(n * DELETED_EVERY_MS);
    expect(await stack.api('DELETE', `/pushes/${id}`)).toMatchObject({ status: 200 });
    const deletedAt = performance.now();
    await sleep(SENT_AFTER_MS);
    const late = device?.arrivals.filter(
      (one) => one.payload === payload && one.receivedAtMs > deletedAt + LAST_SENT_MS,
    );
    return late?.map(({ receivedAtMs }) => `${receivedAtMs - deletedAt} ms after`) ?? [];
  }
  const deleted = Array.from({ length: DELETED_PUSHES });
  const late = await Promise.all(deleted.map(sendAndDelete)).finally(proxy.restore);
  expect(late.flat()).toEqual([]);
});

test('by 500 ms a response: APNs gets each push once', async () => {
  const { stack, proxy } = fixture;
  const sandbox = openSandbox(stack.dev.sandbox);
  proxy.delayResponses(DELAYS_MS.usual);
  try {
    const sent = await Promise.all(
      Array.from({ length: PROVIDER_PUSHES }, () => sendPush(stack, iphone.token)),
    );
    for (const { id } of sent) {
      const isReceived = async () => (await sandbox.received(id)).length > 0;
      await until(isReceived, { timeoutMs: SLOW_MS, what: 'the push at APNs' });
      expect(await sandbox.received(id)).toHaveLength(1);
    }
  } finally {
    proxy.restore();
  }
});

test('by 1 s a response: accepted pushes are delivered once it is faster', async () => {
  const { stack, proxy } = fixture;
  proxy.delayResponses(DELAYS_MS.heldBack);
  const sent = await sendDuring(stack, pool.devices, LOAD, (load) =>
    load.untilAccepted(PUSHES.heldBack),
  ).finally(proxy.restore);
  await expectWholeOrAbsent('MongoDB slower by 1 s', { stack, mongo, pool }, sent);
});

function countInboxRows({ db }: TestMongo, { token }: { token: string }): Promise<number> {
  return db.collection<InboxDocument>('inbox').countDocuments({ _id: inboxRange(token) });
}
