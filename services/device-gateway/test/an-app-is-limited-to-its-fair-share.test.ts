import type { Socket } from 'node:net';
import { createDeviceAuth } from '@carillon/core/device-auth';
import { newObjectId } from '@carillon/core/ids';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createMqttDevice, type MqttDevice } from '../../../test/support/mqtt-device.ts';
import { until } from '../../../test/support/until.ts';
import { createAppShares } from '../src/app-shares.ts';
import type { Gateway } from '../src/gateway.ts';
import { AUTH_KEYS, type GatewayUnderTest, startGatewayUnderTest } from './gateway-under-test.ts';
import {
  ACCEPTED,
  connectPacket,
  openSocket,
  sendAndRead,
  sendUntilClosed,
  UNAVAILABLE,
} from './raw-connection.ts';

const MAX_CONNECTIONS = 20;

let bench: GatewayUnderTest;
let gateway: Gateway;
let sockets: Socket[];
const greedyApp = newObjectId();
const modestApp = newObjectId();

beforeAll(async () => {
  bench = await startGatewayUnderTest();
});
afterAll(() => bench.stop());
beforeEach(() => {
  sockets = [];
});
afterEach(() => {
  for (const socket of sockets) socket.destroy();
});

async function connectAs(token: string): Promise<{ response: number[]; socket: Socket }> {
  const socket = openSocket(gateway.ports.mqtt);
  sockets.push(socket);
  const response = await sendAndRead(socket, connectPacket(token), 4);
  return { response, socket };
}

/** Connects devices of an app until one gets CONNACK 3; returns how many were accepted. */
async function connectUntilRejected(app: string, limit = 2 * MAX_CONNECTIONS): Promise<number> {
  for (let n = 0; n < limit; n += 1) {
    const { response } = await connectAs(await bench.newToken(app));
    if (response[3] === 0) continue;
    expect(response).toEqual(UNAVAILABLE);
    return n;
  }
  return limit;
}

function countOpen(): number {
  return sockets.filter((socket) => !socket.destroyed).length;
}

describe('a process that is full of one app', () => {
  beforeEach(async () => {
    gateway = await bench.startGateway({ maxConnections: MAX_CONNECTIONS });
    expect(await connectUntilRejected(greedyApp)).toBe(MAX_CONNECTIONS);
  });

  test('accepts devices of another app up to its share, and evicts devices of the first', async () => {
    expect(await connectUntilRejected(modestApp)).toBe(MAX_CONNECTIONS / 2);
    expect(await connectUntilRejected(greedyApp)).toBe(0);
    await until(() => countOpen() <= MAX_CONNECTIONS);
  });

  test('lets a device of the first app replace its own connection', async () => {
    sockets.at(0)?.destroy();
    const token = await bench.newToken(greedyApp);
    await until(async () => (await connectAs(token)).response[3] === 0);
    expect((await connectAs(await bench.newToken(modestApp))).response).toEqual(ACCEPTED);
    expect((await connectAs(token)).response).toEqual(ACCEPTED);
    expect((await connectAs(await bench.newToken(greedyApp))).response).toEqual(UNAVAILABLE);
  });
});

test('an app above its share is rejected before the process is full, and others are accepted', async () => {
  gateway = await bench.startGateway({ maxConnections: MAX_CONNECTIONS });
  await connectUntilRejected(modestApp, 1);
  expect(await connectUntilRejected(greedyApp)).toBe(MAX_CONNECTIONS * 0.8 - 1);
  expect(await connectUntilRejected(newObjectId(), 3)).toBe(3);
  expect(
    await sendUntilClosed(gateway.ports.mqtt, connectPacket(await bench.newToken(greedyApp))),
  ).toEqual(UNAVAILABLE);
});

test('devices whose app is unknown, as while MongoDB is unavailable, are accepted until the process is full', () => {
  const shares = createAppShares(MAX_CONNECTIONS);
  let evictions = 0;
  function open(app: string | undefined): boolean {
    const load = shares.loadOf(app);
    const isAccepted = shares.canOpen(load, () => {
      evictions += 1;
    });
    if (isAccepted) shares.opened(load);
    return isAccepted;
  }
  expect([modestApp, modestApp].map(open)).toEqual([true, true]);
  const unknown = Array.from({ length: MAX_CONNECTIONS }, () => open(undefined));
  expect(unknown).toEqual([...Array(MAX_CONNECTIONS - 2).fill(true), false, false]);
  expect(evictions).toBe(0);
});

describe('devices that do not read', () => {
  /** Twice as much as kernels buffer for a socket that is not read: the rest is buffered in the process. */
  const LARGE_BYTES = 10_000_000;
  const LARGE = 'x'.repeat(LARGE_BYTES);
  const SMALL = '{}';
  let devices: MqttDevice[];
  let sameAppDevice: MqttDevice;
  let otherAppDevice: MqttDevice;

  beforeEach(() => {
    devices = [];
  });
  afterEach(() => Promise.all(devices.map((device) => device.disconnect())));

  /** Connects a device that reads and acknowledges. */
  async function connectReading(app: string): Promise<MqttDevice> {
    const token = await bench.newToken(app);
    const url = `mqtt://127.0.0.1:${gateway.ports.mqtt}`;
    const device = createMqttDevice({ url, token, auth: createDeviceAuth(AUTH_KEYS, token) });
    devices.push(device);
    await device.connect();
    await bench.untilAcknowledged(await bench.createPush(token, { data: SMALL }), token, 5_000);
    return device;
  }

  async function dispatchTo(token: string, data = SMALL): Promise<string | undefined> {
    return bench.dispatch(await bench.createPush(token, { data }), token, 5_000);
  }

  /** Connects devices that read their CONNACK and nothing after it. */
  async function connectFrozen(app: string, count: number): Promise<string[]> {
    const tokens = await Promise.all(Array.from({ length: count }, () => bench.newToken(app)));
    for (const token of tokens) (await connectAs(token)).socket.pause();
    await until(async () => (await countOnline(tokens)) === count);
    return tokens;
  }

  const countOnline = async (tokens: string[]) =>
    (await Promise.all(tokens.map(bench.isOnline))).filter(Boolean).length;

  test('throttle their own app and no other', async () => {
    // Two large pushes are above the limit, three are below twice the limit.
    const tokens = await startWithFrozen(3, 1.6 * LARGE_BYTES);
    for (const token of tokens) await dispatchTo(token, LARGE);
    await until(async () => (await dispatchTo(sameAppDevice.token)) === 'not-sent');
    for (let n = 0; n < 5; n += 1)
      expect(await dispatchTo(otherAppDevice.token)).toBe('acknowledged');
    expect(await countOnline(tokens)).toBe(tokens.length);
  });

  test('are closed at twice the limit, and their app is served again', async () => {
    const tokens = await startWithFrozen(2, LARGE_BYTES / 3);
    await until(async () => {
      // In sequence: the test, the gateway and the worker share this process with Redis's timeouts.
      for (const token of tokens) if (await bench.isOnline(token)) await dispatchTo(token, LARGE);
      return (await countOnline(tokens)) === 0;
    });
    expect(await dispatchTo(otherAppDevice.token)).toBe('acknowledged');
    await until(async () => (await dispatchTo(sameAppDevice.token)) === 'acknowledged');
  });

  async function startWithFrozen(count: number, maxWaitingBytes: number): Promise<string[]> {
    gateway = await bench.startGateway({ maxWaitingBytes });
    [sameAppDevice, otherAppDevice] = [
      await connectReading(greedyApp),
      await connectReading(modestApp),
    ];
    return connectFrozen(greedyApp, count);
  }
});
