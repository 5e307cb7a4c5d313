import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { MqttDevice } from '../../../test/support/mqtt-device.ts';
import { until } from '../../../test/support/until.ts';
import {
  enqueueInboxRow,
  type GatewayUnderTest,
  startGatewayUnderTest,
  type TestPush,
} from './gateway-under-test.ts';

/** Longest wait of a gateway for expected inbox rows. */
const ROWS_WRITTEN_WITHIN_MS = 2_000;

let bench: GatewayUnderTest;

beforeAll(async () => {
  bench = await startGatewayUnderTest();
});

afterAll(() => bench.stop());

/** Connects a device and waits until its connection is live. */
async function liveDevice(): Promise<MqttDevice> {
  const device = await bench.registerDevice();
  await device.connect();
  await bench.untilAcknowledged(await bench.createPush(device.token), device.token);
  device.arrivals.length = 0;
  return device;
}

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
    await until(async () => (await bench.store.inbox.listRows(device.token)).length === 0);
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
    await until(
      () => Math.floor(bench.store.clock.now()) > Number.parseInt(older.push.slice(0, 12), 16),
    );
    const newer = await bench.createPush(device.token, { collapse: 'key' });
    expect(await bench.dispatch(newer, device.token)).toBe('acknowledged');
    expect(await bench.dispatch(older, device.token)).toBe('superseded');
    expect(device.arrivals).toMatchObject([{ topic: newer.push }]);
    await device.disconnect();
  });

  test('to a device with sixteen pushes in flight is rejected, and is sent from the inbox', async () => {
    const device = await liveDevice();
    const results = await fillWindow(device);
    const last = await bench.createPush(device.token);
    expect(await bench.dispatch(last, device.token, 300)).toBe('backpressure');
    await enqueueInboxRow(bench, device.token, last);
    expect(await bench.dispatch(await bench.createPush(device.token), device.token, 300)).toBe(
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
    expect(await bench.dispatch(last, device.token, 300)).toBe('backpressure');
    device.releaseReceipts();
    await Promise.all(results);
    expect(await bench.dispatch(last, device.token, 300)).toBe('acknowledged');
    await device.disconnect();
  });

  test('without an inbox row does not keep a connection from going live', async () => {
    const device = await bench.registerDevice();
    for (let n = 0; n < 10; n += 1) {
      await enqueueInboxRow(bench, device.token, await bench.createPush(device.token));
    }
    // With more than half of the window in flight the inbox is not read further.
    device.holdReceipts();
    await device.connect();
    await device.waitFor(10);
    const push: TestPush = { ...(await bench.createPush(device.token)), hasNoRow: true };
    const startedAt = performance.now();
    expect(await bench.dispatch(push, device.token)).toBe('syncing');
    device.releaseReceipts();
    await until(async () => (await bench.dispatch(push, device.token)) === 'acknowledged');
    expect(performance.now() - startedAt).toBeLessThan(ROWS_WRITTEN_WITHIN_MS);
    await device.disconnect();
  });
});

/** Dispatches as many pushes as a device may have in flight; the device holds its receipts. */
async function fillWindow(device: MqttDevice): Promise<Promise<string | undefined>[]> {
  device.holdReceipts();
  const results: Promise<string | undefined>[] = [];
  for (let n = 0; n < 16; n += 1) {
    results.push(bench.dispatch(await bench.createPush(device.token), device.token, 300));
  }
  await device.waitFor(16);
  return results;
}
