import { once } from 'node:events';
import type { Socket } from 'node:net';
import { newDeviceToken } from '@carillon/core/ids';
import { createMetrics } from '@carillon/runtime/metrics';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { WebSocket } from 'ws';
import { until } from '../../../test/support/until.ts';
import type { Gateway, GatewaySettings } from '../src/gateway.ts';
import { type GatewayUnderTest, startGatewayUnderTest } from './gateway-under-test.ts';
import { connectPacket, openSocket, sendAndRead } from './raw-connection.ts';

let bench: GatewayUnderTest;
let gateway: Gateway;
let metrics: ReturnType<typeof createMetrics>;
let sockets: Socket[] = [];
beforeAll(async () => {
  bench = await startGatewayUnderTest();
});
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  sockets = [];
});
afterAll(() => bench.stop());

async function start(settings: Partial<GatewaySettings> = {}): Promise<void> {
  metrics = createMetrics();
  gateway = await bench.startGateway({ ...settings, metrics });
}

/** Waits until a counter has counted something under a label. */
async function untilCounted(counter: string, label: string): Promise<void> {
  const line = new RegExp(`^${counter}\\{\\w+="${label}"\\} [1-9]`, 'm');
  const isCounted = async () => line.test((await metrics.expose()).text);
  await until(isCounted, { timeoutMs: 10_000, what: `${counter} has ${label}` });
}

const untilConnectCounted = (result: string) =>
  untilCounted('carillon_gateway_connects_total', result);

function open(): Socket {
  const socket = openSocket(gateway.ports.mqtt);
  sockets.push(socket);
  return socket;
}

async function readCode(packet: Buffer): Promise<number | undefined> {
  return (await sendAndRead(open(), packet, 4))[3];
}

test('wrong credentials, unknown devices and versions of MQTT by their code', async () => {
  await start();
  const { token } = await bench.registerDevice(gateway);
  const wrong = { password: Buffer.from('f'.repeat(64)) };
  expect(await readCode(connectPacket(token, wrong))).toBe(4);
  expect(await readCode(connectPacket(newDeviceToken()))).toBe(5);
  expect(await readCode(connectPacket(token, { protocolVersion: 5 }))).toBe(1);
  for (const result of ['refused-4', 'refused-5', 'refused-1']) await untilConnectCounted(result);
});

test('web pages of foreign origins', async () => {
  await start();
  const headers = { origin: 'https://evil.example' };
  const page = new WebSocket(`ws://127.0.0.1:${gateway.ports.ws}/`, ['mqtt'], { headers });
  page.on('error', () => undefined);
  await once(page, 'unexpected-response');
  page.terminate();
  await untilConnectCounted('foreign-origin');
});

test('devices of an app above its share, and connections that give way to another app', async () => {
  await start({ maxConnections: 2 });
  const connect = async (app: string) => {
    const { token } = await bench.store.devices.register(app, 'electron');
    return readCode(connectPacket(token));
  };
  expect(await connect('a'.repeat(24))).toBe(0);
  expect(await connect('a'.repeat(24))).toBe(0);
  expect(await connect('a'.repeat(24))).toBe(3);
  await untilConnectCounted('refused-3');
  expect(await connect('b'.repeat(24))).toBe(0);
  await untilCounted('carillon_gateway_closes_total', 'over-share');
});

test('connections that are evicted before their CONNECT', async () => {
  await start({ maxConnections: 1 });
  open();
  open();
  await untilConnectCounted('gave-way');
});
