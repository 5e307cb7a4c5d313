import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { type Bench, owe, startBench, type TestPush } from './gateway-under-test.ts';

/** More than half a window without receipts: no more of the inbox is read. */
const OWED = 10;

let bench: Bench;
beforeAll(async () => {
  bench = await startBench();
});
afterAll(() => bench.stop());

test('nothing live overtakes a push whose row is still to be written', async () => {
  const device = await bench.device();
  for (let n = 0; n < OWED; n += 1) await owe(bench, device.token, await bench.push(device.token));
  device.holdReceipts();
  await device.connect();
  await device.waitFor(OWED);
  const first = await bench.push(device.token);
  expect(await bench.handOver(first, device.token)).toBe('draining');
  device.releaseReceipts();
  await until(async () => (await bench.store.inbox.listRows(device.token)).length === 0);
  const second = await nextPush(device.token, first);
  expect(await bench.handOver(second, device.token)).toBe('draining');
  await owe(bench, device.token, first);
  await owe(bench, device.token, second);
  const arrivals = await device.waitFor(OWED + 2);
  expect(arrivals.slice(OWED)).toMatchObject([{ topic: first.push }, { topic: second.push }]);
  await device.disconnect();
});

/** A push that is surely newer: ids sort by their millisecond. */
async function nextPush(token: string, older: TestPush): Promise<TestPush> {
  const time = Number.parseInt(older.push.slice(0, 12), 16);
  await until(() => Math.floor(bench.store.clock.now()) > time);
  return bench.push(token);
}
