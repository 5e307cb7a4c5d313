import { afterAll, beforeAll, expect, test } from '@jest/globals';
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

test('a live push does not overtake a push whose inbox row is not written yet', async () => {
  const device = await bench.registerDevice();
  for (let n = 0; n < INBOX_ROWS; n += 1)
    await enqueueInboxRow(bench, device.token, await bench.createPush(device.token));
  device.holdReceipts();
  await device.connect();
  await device.waitFor(INBOX_ROWS);
  const first = await bench.createPush(device.token);
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

/** Creates a push with a newer id: ids sort by their millisecond. */
async function nextPush(token: string, older: TestPush): Promise<TestPush> {
  const time = Number.parseInt(older.push.slice(0, 12), 16);
  await until(() => Math.floor(bench.store.clock.now()) > time);
  return bench.createPush(token);
}
