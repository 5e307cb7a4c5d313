import { once } from 'node:events';
import { newDeviceToken } from '@carillon/core/ids';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { IConnectPacket } from 'mqtt-packet';
import { startDatabase } from '../../../test/support/own-database.ts';
import { startTcpProxy, type TcpProxy } from '../../../test/support/tcp-proxy.ts';
import { until } from '../../../test/support/until.ts';
import { untilClosed } from '../../../test/support/until-closed.ts';
import {
  enqueueInboxRow,
  type GatewayUnderTest,
  startGatewayUnderTest,
} from './gateway-under-test.ts';
import {
  ACCEPTED,
  connack,
  connectPacket,
  openSocket,
  sendUntilClosed,
  UNAVAILABLE,
  WRONG_AUTH,
} from './raw-connection.ts';

const MQTT31 = { protocolVersion: 3, protocolId: 'MQIsdp' } as const;
const WILL = { topic: 'x', payload: Buffer.from('y'), qos: 1, retain: true } as const;
const PING_AND_DISCONNECT = Buffer.from([0xc0, 0, 0xe0, 0]);
const PONG = [0xd0, 0];

let proxy: TcpProxy;
let bench: GatewayUnderTest;
beforeAll(async () => {
  const database = await startDatabase();
  const uri = new URL(database.uri);
  proxy = await startTcpProxy(Number(uri.port));
  uri.port = String(proxy.port);
  const stop = async () => {
    await proxy.stop();
    await database.stop();
  };
  bench = await startGatewayUnderTest({ uri: uri.href, stop });
});
afterAll(() => bench.stop());

/** Sends a CONNECT, a ping and DISCONNECT; returns the response until the gateway closes the connection. */
const connectAndPing = (connect: Buffer) =>
  sendUntilClosed(bench.gateway.ports.mqtt, connect, PING_AND_DISCONNECT);

test.each<[string, number, Partial<IConnectPacket>]>([
  ['a wrong auth', 4, WRONG_AUTH],
  ['a client id other than the user name', 4, { clientId: 'other' }],
  ['the protocol level of MQTT 5', 1, { protocolVersion: 5 }],
  ['MQTT 3.1 and a wrong auth', 4, { ...MQTT31, ...WRONG_AUTH }],
  ['MQTT 3.1, which older clients try first', 0, MQTT31],
  ['a will, which is ignored', 0, { will: WILL }],
  ['MQTT 3.1 and a will', 0, { will: WILL, ...MQTT31 }],
])('a CONNECT with %s gets code %i', async (_what, code, overrides) => {
  const response = await connectAndPing(connectPacket(await bench.newToken(), overrides));
  expect(response).toEqual(code === 0 ? [...ACCEPTED, ...PONG] : connack(code));
});

test('a CONNECT of a device that was never registered gets code 5, of another protocol code 1', async () => {
  for (const overrides of [{}, MQTT31])
    expect(await connectAndPing(connectPacket(newDeviceToken(), overrides))).toEqual(connack(5));
  const misnamed = connectPacket(await bench.newToken()).fill('MQTX', 4, 8);
  expect(await connectAndPing(misnamed)).toEqual(connack(1));
});

test('a malformed CONNECT closes the connection without a CONNACK', async () => {
  expect(await connectAndPing(connectPacket(await bench.newToken()).fill(0xff, 20))).toEqual([]);
  expect(await connectAndPing(Buffer.from('GET / HTTP/1.1\r\n\r\n'))).toEqual([]);
});

test('without MongoDB a device with a signed auth connects, any other gets code 3', async () => {
  const device = await bench.registerDevice();
  const imported = connectPacket(device.token, { password: Buffer.from('imported') });
  proxy.block('requests');
  const unknown = openSocket(bench.gateway.ports.mqtt);
  unknown.write(connectPacket(newDeviceToken()));
  const [response, [acknowledged]] = await Promise.all([
    connectAndPing(imported),
    once(unknown, 'data'),
    device.connect(),
  ]);
  expect(response).toEqual(UNAVAILABLE);
  expect([...acknowledged]).toEqual(ACCEPTED);
  proxy.restore();
  // The device is checked once MongoDB is back: it was never registered.
  await untilClosed(unknown);
  await enqueueInboxRow(bench, device.token, await bench.createPush(device.token));
  await bench.untilAcknowledged(await bench.createPush(device.token), device.token);
  await device.disconnect();
});

test('a gateway that stops closes its connections, and its devices are offline at once', async () => {
  const gateway = await bench.startGateway();
  const device = await bench.registerDevice(gateway);
  await device.connect();
  await until(() => bench.isOnline(device.token));
  await gateway.stop();
  expect(await bench.isOnline(device.token)).toBe(false);
  await until(() => !device.connected);
});
