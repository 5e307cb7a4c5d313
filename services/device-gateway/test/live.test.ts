import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { MqttDevice } from '../../../test/support/mqtt-device.ts';
import { until } from '../../../test/support/until.ts';
import { type Bench, owe, startBench } from './gateway-under-test.ts';

let bench: Bench;

beforeAll(async () => {
  bench = await startBench();
});

afterAll(() => bench.stop());

/** A device that is connected and whose inbox is empty. */
async function liveDevice(): Promise<MqttDevice> {
  const device = await bench.device();
  await device.connect();
  const probe = await bench.push(device.token);
  await until(async () => (await bench.handOver(probe, device.token)) === 'acknowledged');
  device.arrivals.length = 0;
  return device;
}

describe('a live delivery', () => {
  test('reaches the device byte for byte and is answered with its receipt', async () => {
    const device = await liveDevice();
    const push = await bench.push(device.token, { data: '{"big":12345678901234567890,"ü":1.0}' });
    expect(await bench.handOver(push, device.token)).toBe('acknowledged');
    expect(device.arrivals).toMatchObject([
      { topic: push.push, payload: '{"big":12345678901234567890,"ü":1.0}', dup: false },
    ]);
    await device.disconnect();
  });

  test('that was acknowledged before is answered from memory', async () => {
    const device = await liveDevice();
    const push = await bench.push(device.token);
    await bench.handOver(push, device.token);
    expect(await bench.handOver(push, device.token)).toBe('acknowledged');
    expect(device.arrivals).toHaveLength(1);
    await device.disconnect();
  });

  test('without a receipt is silent, and a late receipt is recorded', async () => {
    const device = await liveDevice();
    const push = await bench.push(device.token);
    device.holdReceipts();
    expect(await bench.handOver(push, device.token)).toBe('silent');
    await owe(bench, device.token, push, true);
    device.releaseReceipts();
    await until(async () => (await bench.store.inbox.listRows(device.token)).length === 0);
    expect((await bench.store.pushes.inspect(push.push))?.work?.got).toEqual({ 0: 1 });
    await device.disconnect();
  });

  test('whose link breaks after the write is silent', async () => {
    const device = await liveDevice();
    const push = await bench.push(device.token);
    device.holdReceipts();
    const answer = bench.handOver(push, device.token);
    await device.waitFor(1);
    device.cut();
    expect(await answer).toBe('silent');
  });

  test('after its deadline is not written', async () => {
    const device = await liveDevice();
    const push = await bench.push(device.token);
    expect(await bench.handOver(push, device.token, -10)).toBe('not-written');
    expect(device.arrivals).toEqual([]);
    await device.disconnect();
  });

  test('that is older than the newest of its collapse key is superseded', async () => {
    const device = await liveDevice();
    const older = await bench.push(device.token, { collapse: 'key' });
    await until(
      () => Math.floor(bench.store.clock.now()) > Number.parseInt(older.push.slice(0, 12), 16),
    );
    const newer = await bench.push(device.token, { collapse: 'key' });
    expect(await bench.handOver(newer, device.token)).toBe('acknowledged');
    expect(await bench.handOver(older, device.token)).toBe('superseded');
    expect(device.arrivals).toMatchObject([{ topic: newer.push }]);
    await device.disconnect();
  });

  test('to a device with sixteen in flight is refused, and waits in the inbox', async () => {
    const device = await liveDevice();
    device.holdReceipts();
    const answers: Promise<string | undefined>[] = [];
    for (let n = 0; n < 16; n += 1) {
      answers.push(bench.handOver(await bench.push(device.token), device.token, 300));
    }
    await device.waitFor(16);
    const last = await bench.push(device.token);
    expect(await bench.handOver(last, device.token, 300)).toBe('refused');
    await owe(bench, device.token, last);
    expect(await bench.handOver(await bench.push(device.token), device.token, 300)).toBe(
      'draining',
    );
    device.releaseReceipts();
    expect((await device.waitFor(17)).at(-1)).toMatchObject({ topic: last.push });
    await Promise.all(answers);
    await device.disconnect();
  });
});
