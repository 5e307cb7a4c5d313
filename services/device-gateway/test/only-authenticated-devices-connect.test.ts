import { once } from 'node:events';
import { newDeviceToken } from '@carillon/core/ids';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { TestServer } from '../../../packages/presence/test/start-server.ts';
import { startMongod } from '../../../test/support/mongod-server.ts';
import { until } from '../../../test/support/until.ts';
import { untilClosed } from '../../../test/support/until-closed.ts';
import {
  enqueueInboxRow,
  type GatewayUnderTest,
  startGatewayUnderTest,
} from './gateway-under-test.ts';
import {
  connectPacket,
  openSocket,
  sendUntilClosed as sendUntilClosedTo,
} from './raw-connection.ts';

let mongod: TestServer;
let bench: GatewayUnderTest;

beforeAll(async () => {
  mongod = await startMongod();
  bench = await startGatewayUnderTest({
    uri: `mongodb://127.0.0.1:${mongod.port}/test`,
    stop: mongod.stop,
  });
});

afterAll(() => bench.stop());

/** Sends bytes and returns all received bytes until the gateway closes the connection. */
function sendUntilClosed(...chunks: Buffer[]): Promise<number[]> {
  return sendUntilClosedTo(bench.gateway.ports.mqtt, ...chunks);
}

describe('CONNECT', () => {
  test('with a wrong auth is rejected with code 4', async () => {
    const { token } = await bench.registerDevice();
    const wrong = connectPacket(token, { password: Buffer.from('f'.repeat(64)) });
    expect(await sendUntilClosed(wrong)).toEqual([0x20, 2, 0, 4]);
  });

  test('of a device that was never registered is rejected with code 5', async () => {
    expect(await sendUntilClosed(connectPacket(newDeviceToken()))).toEqual([0x20, 2, 0, 5]);
  });

  test('of another protocol level is rejected with code 1', async () => {
    const { token } = await bench.registerDevice();
    expect(await sendUntilClosed(connectPacket(token, { protocolVersion: 5 }))).toEqual([
      0x20, 2, 0, 1,
    ]);
    const misnamed = connectPacket(token).fill('MQTX', 4, 8);
    expect(await sendUntilClosed(misnamed)).toEqual([0x20, 2, 0, 1]);
  });

  test('of MQTT 3.1, which older clients try first, is handled like MQTT 3.1.1', async () => {
    const { token } = await bench.registerDevice();
    const mqtt31 = { protocolVersion: 3, protocolId: 'MQIsdp' } as const;
    const disconnect = Buffer.from([0xe0, 0]);
    expect(await sendUntilClosed(connectPacket(token, mqtt31), disconnect)).toEqual([
      0x20, 2, 0, 0,
    ]);
    const wrong = connectPacket(token, { ...mqtt31, password: Buffer.from('f'.repeat(64)) });
    expect(await sendUntilClosed(wrong)).toEqual([0x20, 2, 0, 4]);
    expect(await sendUntilClosed(connectPacket(newDeviceToken(), mqtt31))).toEqual([0x20, 2, 0, 5]);
  });

  test('with a client id other than the user name is rejected with code 4', async () => {
    const { token } = await bench.registerDevice();
    expect(await sendUntilClosed(connectPacket(token, { clientId: 'other' }))).toEqual([
      0x20, 2, 0, 4,
    ]);
  });

  test('with a will is accepted, and the will is ignored', async () => {
    const { token } = await bench.registerDevice();
    const will = { topic: 'x', payload: Buffer.from('y'), qos: 1, retain: true } as const;
    const pingAndDisconnect = Buffer.from([0xc0, 0, 0xe0, 0]);
    for (const overrides of [
      { will },
      { will, protocolVersion: 3, protocolId: 'MQIsdp' },
    ] as const) {
      const response = await sendUntilClosed(connectPacket(token, overrides), pingAndDisconnect);
      expect(response).toEqual([0x20, 2, 0, 0, 0xd0, 0]);
    }
  });

  test('that is malformed closes the connection without a CONNACK', async () => {
    const { token } = await bench.registerDevice();
    expect(await sendUntilClosed(connectPacket(token).fill(0xff, 20))).toEqual([]);
    expect(await sendUntilClosed(Buffer.from('GET / HTTP/1.1\r\n\r\n'))).toEqual([]);
  });
});

describe('a connected device', () => {
  test('that floods packets is closed', async () => {
    const { token } = await bench.registerDevice();
    const pings = Buffer.from('c000'.repeat(1_000), 'hex');
    expect((await sendUntilClosed(connectPacket(token), pings)).length).toBeLessThan(200);
  });
});

describe('without MongoDB', () => {
  test('a device with a signed auth connects, any other gets code 3', async () => {
    const device = await bench.registerDevice();
    const unknown = newDeviceToken();
    process.kill(mongod.pid, 'SIGSTOP');
    try {
      await device.connect();
      const imported = connectPacket(device.token, { password: Buffer.from('imported') });
      expect(await sendUntilClosed(imported)).toEqual([0x20, 2, 0, 3]);
      const socket = openSocket(bench.gateway.ports.mqtt);
      socket.write(connectPacket(unknown));
      expect([...(await once(socket, 'data'))[0]]).toEqual([0x20, 2, 0, 0]);
      process.kill(mongod.pid, 'SIGCONT');
      // The device is checked once MongoDB is back: it was never registered.
      await untilClosed(socket);
    } finally {
      process.kill(mongod.pid, 'SIGCONT');
    }
    await enqueueInboxRow(bench, device.token, await bench.createPush(device.token));
    const probe = await bench.createPush(device.token);
    await bench.untilAcknowledged(probe, device.token);
    await device.disconnect();
  });
});

describe('a gateway that stops', () => {
  test('closes its connections, and its devices are offline at once', async () => {
    const gateway = await bench.startGateway();
    const device = await bench.registerDevice(gateway);
    await device.connect();
    await until(() => bench.isOnline(device.token));
    await gateway.stop();
    expect(await bench.isOnline(device.token)).toBe(false);
    await until(() => !device.connected);
  });
});
