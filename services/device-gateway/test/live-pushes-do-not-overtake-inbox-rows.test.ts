import { newPushId } from '@carillon/core/ids';
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

let bench: GatewayUnderTest;
beforeAll(async () => {
  bench = await startGatewayUnderTest();
});
afterAll(() => bench.stop());

/** Connects a device whose inbox is read no further until it releases the receipts. */
async function syncingDevice(): Promise<MqttDevice> {
  const device = await bench.registerDevice();
  for (let n = 0; n < INBOX_ROWS; n += 1)
    await enqueueInboxRow(bench, device.token, await bench.createPush(device.token));
  device.holdReceipts();
  await device.connect();
  await device.waitFor(INBOX_ROWS);
  return device;
}

test('a push waits for the inbox row of an earlier one that a newer push may replace', async () => {
  const device = await syncingDevice();
  const first = await bench.createPush(device.token, { collapse: 'key' });
  expect(await bench.dispatch(first, device.token)).toBe('syncing');
  device.releaseReceipts();
  await until(async () => (await bench.store.inbox.listRows(device.token)).length === 0);
  const second = await nextPush(device.token, first);
  expect(await bench.dispatch(second, device.token)).toBe('syncing');
  await enqueueInboxRow(bench, device.token, first);
  await enqueueInboxRow(bench, device.token, second);
  const arrivals = await device.waitFor(INBOX_ROWS + 2);
  expect(arrivals.slice(INBOX_ROWS)).toMatchObject([{ topic: first.push }, { topic: second.push }]);
  await device.disconnect();
});

test('pushes that arrive during a replay are sent before their rows are written, and later ones live', async () => {
  const device = await syncingDevice();
  const first = await bench.createPush(device.token);
  expect(await bench.dispatch(first, device.token)).toBe('syncing');
  const removed = { ...(await nextPush(device.token, first)), push: newPushId(0) };
  expect(await bench.dispatch(removed, device.token, 100)).toBe('syncing');
  const second = await nextPush(device.token, first);
  expect(await bench.dispatch(second, device.token, 100)).toBe('syncing');
  // Their states must be read once their deadlines have passed.
  const overdueAt = performance.now() + 100;
  await until(() => performance.now() > overdueAt, { what: 'the deadlines have passed' });
  device.releaseReceipts();
  const arrivals = await device.waitFor(INBOX_ROWS + 2);
  expect(arrivals.slice(INBOX_ROWS)).toMatchObject([{ topic: first.push }, { topic: second.push }]);
  await until(async () => (await bench.dispatch(second, device.token)) === 'acknowledged');
  await enqueueInboxRow(bench, device.token, second);
  await bench.notify(second, device.token);
  const third = await nextPush(device.token, second);
  expect(await bench.dispatch(third, device.token)).toBe('acknowledged');
  expect(device.arrivals.at(-1)).toMatchObject({ topic: third.push });
  expect(device.arrivals).toHaveLength(INBOX_ROWS + 3);
  await device.disconnect();
});

/** Creates a push with a newer id: ids sort by their millisecond. */
async function nextPush(token: string, older: TestPush): Promise<TestPush> {
  const time = Number.parseInt(older.push.slice(0, 12), 16);
  await until(() => Math.floor(bench.store.clock.now()) > time);
  return bench.createPush(token);
}
