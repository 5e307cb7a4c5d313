import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { type Bench, owe, startBench } from './gateway-under-test.ts';

let bench: Bench;

beforeAll(async () => {
  bench = await startBench();
});

afterAll(() => bench.stop());

describe('the inbox', () => {
  test('goes out in the order of the pushes, forty as well as one, and is empty then', async () => {
    const device = await bench.device();
    const ids: string[] = [];
    for (let n = 0; n < 40; n += 1) {
      const push = await bench.push(device.token, { data: `{"n":${n}}` });
      ids.push(push.push);
      await owe(bench, device.token, push);
    }
    await device.connect();
    const arrivals = await device.waitFor(40);
    expect(arrivals.map(({ topic }) => topic)).toEqual([...ids].sort());
    await until(async () => (await bench.store.inbox.listRows(device.token)).length === 0);
    await until(() => ids.every((id) => bench.finished.includes(id)));
    await device.disconnect();
    expect(device.arrivals).toHaveLength(40);
  });

  test('says that a push was sent before', async () => {
    const device = await bench.device();
    await owe(bench, device.token, await bench.push(device.token), true);
    await device.connect();
    expect(await device.waitFor(1)).toMatchObject([{ dup: true }]);
    await device.disconnect();
  });

  test('keeps what was not acknowledged, for the next connection', async () => {
    const device = await bench.device();
    const push = await bench.push(device.token);
    await owe(bench, device.token, push);
    device.holdReceipts();
    await device.connect();
    await device.waitFor(1);
    device.cut();
    device.releaseReceipts();
    await device.connect();
    expect(await device.waitFor(2)).toMatchObject([{ topic: push.push }, { topic: push.push }]);
    await until(async () => (await bench.store.inbox.listRows(device.token)).length === 0);
    await device.disconnect();
  });

  test('holds back what lies in a push that is no longer open', async () => {
    const device = await bench.device();
    const gone = await bench.push(device.token);
    await owe(bench, device.token, { ...gone, push: '0'.repeat(24), work: '0'.repeat(24) });
    const open = await bench.push(device.token);
    await owe(bench, device.token, open);
    await device.connect();
    expect(await device.waitFor(1)).toMatchObject([{ topic: open.push }]);
    await device.disconnect();
  });

  test('is read again when a worker says that a row was written', async () => {
    const device = await bench.device();
    await device.connect();
    await until(() => bench.isOnline(device.token));
    await owe(bench, device.token, await bench.push(device.token));
    const value = await bench.redis.get(`p:${device.token}`);
    const [gateway = '', connection = ''] = value?.split('|') ?? [];
    await bench.worker.drain([{ token: device.token, place: { gateway, connection, credit: 1 } }]);
    await device.waitFor(1);
    await device.disconnect();
  });

  test('is read after Redis was emptied, for workers thought the device offline', async () => {
    const device = await bench.device();
    await device.connect();
    await until(() => bench.isOnline(device.token));
    await bench.redis.flushall();
    await owe(bench, device.token, await bench.push(device.token));
    await device.waitFor(1);
    await until(() => bench.isOnline(device.token));
    await device.disconnect();
  });
});
