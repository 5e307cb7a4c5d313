import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { MqttDevice } from '../../../test/support/mqtt-device.ts';
import { until } from '../../../test/support/until.ts';
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

/** Connects a device whose inbox is read no further until it releases the receipts. */
async function syncingDevice(): Promise<MqttDevice> {
  const device = await bench.registerDevice();
  await enqueueMany(device.token, INBOX_ROWS);
  device.holdReceipts();
  await device.connect();
  await device.waitFor(INBOX_ROWS);
  return device;
}

test('a push waits for the rows of earlier ones, of which one is replaced and one is never written', async () => {
  const device = await syncingDevice();
  const replaced = await bench.createPush(device.token, { collapse: 'key' });
  const deleted = await nextPush(device.token, replaced);
  const newer = await nextPush(device.token, deleted, { collapse: 'key' });
  for (const push of [replaced, deleted, newer])
    expect(await bench.dispatch(push, device.token)).toBe('syncing');
  device.releaseReceipts();
  await until(async () => (await bench.store.inbox.listRows(device.token)).length === 0);
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
  await until(async () => (await bench.store.inbox.listRows(device.token)).length === 0);
  expect(device.arrivals.map(({ topic }) => topic)).toEqual(ids);
  await device.disconnect();
}, 120_000);

/** Writes rows of as many new pushes to an inbox. Returns their ids in order. */
async function enqueueMany(token: string, count: number): Promise<string[]> {
  const pushes = await Promise.all(Array.from({ length: count }, () => bench.createPush(token)));
  const rows = pushes.map(({ push, work }) => ({ token, push, work, position: 0, sent: false }));
  await bench.store.inbox.enqueue(rows);
  return rows.map(({ push }) => push).sort();
}

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
