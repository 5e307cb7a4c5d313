import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import {
  enqueueInboxRow,
  type GatewayUnderTest,
  startGatewayUnderTest,
} from './gateway-under-test.ts';

let bench: GatewayUnderTest;

beforeAll(async () => {
  bench = await startGatewayUnderTest();
});

afterAll(() => bench.stop());

describe('the inbox', () => {
  test('is sent in the order of the pushes, each push once, and is empty after the receipts', async () => {
    const device = await bench.registerDevice();
    const ids: string[] = [];
    for (let n = 0; n < 40; n += 1) {
      const push = await bench.createPush(device.token, { data: `{"n":${n}}` });
      ids.push(push.push);
      await enqueueInboxRow(bench, device.token, push);
    }
    await device.connect();
    const arrivals = await device.waitFor(40);
    expect(arrivals.map(({ topic }) => topic)).toEqual([...ids].sort());
    await until(async () => (await bench.store.inbox.listRows(device.token)).length === 0);
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
    const listPushes = async () =>
      (await store.inbox.listRows(device.token)).map(({ push }) => push);
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
