import { once } from 'node:events';
import { newDeviceToken } from '@carillon/core/ids';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { generate } from 'mqtt-packet';
import { closed } from '../../../test/support/closed.ts';
import { createMqttDevice } from '../../../test/support/mqtt-device.ts';
import { until } from '../../../test/support/until.ts';
import { type Bench, owe, startBench } from './gateway-under-test.ts';
import { connectPacket, openSocket, talk as talkTo } from './raw-link.ts';

let bench: Bench;

beforeAll(async () => {
  bench = await startBench();
});

afterAll(() => bench.stop());

/** Sends bytes and gives all that comes back until the gateway closes. */
function talk(...pieces: Buffer[]): Promise<number[]> {
  return talkTo(bench.gateway.ports.mqtt, ...pieces);
}

describe('CONNECT', () => {
  test('of a registered device is accepted, and the device is online', async () => {
    const device = await bench.device();
    await device.connect();
    await until(() => bench.isOnline(device.token));
    await device.disconnect();
    await until(async () => !(await bench.isOnline(device.token)), { timeoutMs: 1_000 });
  });

  test('with a wrong auth is refused with code 4', async () => {
    const { token } = await bench.device();
    const wrong = connectPacket(token, { password: Buffer.from('f'.repeat(64)) });
    expect(await talk(wrong)).toEqual([0x20, 2, 0, 4]);
  });

  test('of a device that was never registered, or deleted, is refused with code 5', async () => {
    expect(await talk(connectPacket(newDeviceToken()))).toEqual([0x20, 2, 0, 5]);
  });

  test('of another protocol level is refused with code 1', async () => {
    const { token } = await bench.device();
    expect(await talk(connectPacket(token, { protocolVersion: 5 }))).toEqual([0x20, 2, 0, 1]);
    const old = connectPacket(token, { protocolVersion: 3, protocolId: 'MQIsdp' });
    expect(await talk(old)).toEqual([0x20, 2, 0, 1]);
  });

  test('whose client id is not the user name is refused with code 4', async () => {
    const { token } = await bench.device();
    expect(await talk(connectPacket(token, { clientId: 'other' }))).toEqual([0x20, 2, 0, 4]);
  });

  test('with a will, or malformed, is not answered', async () => {
    const { token } = await bench.device();
    const will = { topic: 'x', payload: Buffer.from('y'), qos: 0, retain: false } as const;
    expect(await talk(connectPacket(token, { will }))).toEqual([]);
    expect(await talk(connectPacket(token).fill(0xff, 20))).toEqual([]);
    expect(await talk(Buffer.from('GET / HTTP/1.1\r\n\r\n'))).toEqual([]);
  });

  test('cut into single bytes and followed at once by a ping is answered in order', async () => {
    const { token } = await bench.device();
    const bytes = Buffer.concat([connectPacket(token), Buffer.from([0xc0, 0, 0xe0, 0])]);
    expect(await talk(...[...bytes].map((byte) => Buffer.from([byte])))).toEqual([
      0x20, 2, 0, 0, 0xd0, 0,
    ]);
  });

  test('that does not come within 5 s ends the link', async () => {
    const startedAt = performance.now();
    expect(await talk(Buffer.from([0x10]))).toEqual([]);
    expect(performance.now() - startedAt).toBeLessThan(8_000);
  });

  test('of the same device again closes the older link', async () => {
    const device = await bench.device();
    await device.connect();
    const second = createMqttDevice({
      url: `mqtt://127.0.0.1:${bench.gateway.ports.mqtt}`,
      ...device,
    });
    await second.connect();
    await until(() => !device.connected);
    expect(second.connected).toBe(true);
    await until(() => bench.isOnline(device.token));
    await second.disconnect();
  });

  test('on another gateway closes the older link there, and its close hides nothing', async () => {
    const other = await bench.startGateway();
    const device = await bench.device();
    await device.connect();
    await until(() => bench.isOnline(device.token));
    const second = createMqttDevice({ url: `mqtt://127.0.0.1:${other.ports.mqtt}`, ...device });
    await second.connect();
    await until(() => !device.connected);
    const probe = await bench.push(device.token);
    await until(async () => (await bench.handOver(probe, device.token)) === 'acknowledged');
    expect(second.arrivals).toHaveLength(1);
    await second.disconnect();
  });
});

describe('a connected device', () => {
  test('that publishes, or sends what devices do not send, is closed', async () => {
    const publish = generate({
      cmd: 'publish',
      topic: 'x',
      payload: 'y',
      qos: 0,
      dup: false,
      retain: false,
    });
    const { token } = await bench.device();
    for (const packet of [publish, Buffer.from([0x62, 2, 0, 1]), Buffer.from([0x41, 2, 0, 1])]) {
      expect(await talk(connectPacket(token), packet)).toEqual([0x20, 2, 0, 0]);
    }
  });

  test('that floods is closed', async () => {
    const { token } = await bench.device();
    const pings = Buffer.from('c000'.repeat(1_000), 'hex');
    expect((await talk(connectPacket(token), pings)).length).toBeLessThan(200);
  });
});

describe('without MongoDB', () => {
  test('a device with our signature is let in, another one is put off with code 3', async () => {
    const device = await bench.device();
    const unknown = newDeviceToken();
    process.kill(bench.mongod.pid, 'SIGSTOP');
    try {
      await device.connect();
      const imported = connectPacket(device.token, { password: Buffer.from('imported') });
      expect(await talk(imported)).toEqual([0x20, 2, 0, 3]);
      const socket = openSocket(bench.gateway.ports.mqtt);
      socket.write(connectPacket(unknown));
      expect([...(await once(socket, 'data'))[0]]).toEqual([0x20, 2, 0, 0]);
      process.kill(bench.mongod.pid, 'SIGCONT');
      // Checked as soon as MongoDB answers: it was never registered.
      await closed(socket);
    } finally {
      process.kill(bench.mongod.pid, 'SIGCONT');
    }
    await owe(bench, device.token, await bench.push(device.token));
    const probe = await bench.push(device.token);
    await until(async () => (await bench.handOver(probe, device.token)) === 'acknowledged');
    await device.disconnect();
  });
});

describe('a gateway that stops', () => {
  test('closes its links, and the devices are offline at once', async () => {
    const gateway = await bench.startGateway();
    const device = await bench.device(gateway);
    await device.connect();
    await until(() => bench.isOnline(device.token));
    await gateway.stop();
    expect(await bench.isOnline(device.token)).toBe(false);
    await until(() => !device.connected);
  });
});
