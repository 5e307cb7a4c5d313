import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { newDeviceToken } from '@carillon/core/ids';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { openMongo } from '../../../test/support/mongo.ts';
import { until } from '../../../test/support/until.ts';
import { untilClosed } from '../../../test/support/until-closed.ts';
import type { Gateway } from '../src/gateway.ts';
import { type GatewayUnderTest, startGatewayUnderTest } from './gateway-under-test.ts';
import { connectPacket, openSocket, sendAndRead } from './raw-connection.ts';

const ACCEPTED = [0x20, 2, 0, 0];
const UNAVAILABLE = [0x20, 2, 0, 3];
const BAD_CREDENTIALS = [0x20, 2, 0, 4];
const WRONG_AUTH = { password: Buffer.from('f'.repeat(64)) };
/** Wrong credentials get their CONNACK within 5 s; 2 s more for a busy machine. */
const MAX_RESPONSE_MS = 5_000 + 2_000;

let bench: GatewayUnderTest;
/** A new gateway for each test, so that the address starts without counts. */
let gateway: Gateway;
let sockets: Socket[];

beforeAll(async () => {
  bench = await startGatewayUnderTest();
});
afterAll(() => bench.stop());
beforeEach(async () => {
  gateway = await bench.startGateway();
  sockets = [];
});
afterEach(() => {
  for (const socket of sockets) socket.destroy();
});

/** Opens a connection that stays open until the test ends, by default from the shared address. */
function openConnection(localAddress = '127.0.0.1', port = gateway.ports.mqtt): Socket {
  const at = { host: '127.0.0.1', port, localAddress };
  const socket = connect(at).on('error', () => undefined);
  sockets.push(socket);
  return socket.resume();
}

async function openSilentConnections(count: number, port?: number): Promise<Socket[]> {
  const connections = Array.from({ length: count }, () => openConnection(undefined, port));
  await Promise.all(connections.map((connection) => once(connection, 'connect')));
  return connections;
}

/** Returns the CONNACK; empty when the connection is closed without one. */
async function readResponse(connectBytes: Buffer, socket = openConnection()): Promise<number[]> {
  return Promise.race([sendAndRead(socket, connectBytes, 4), untilClosed(socket).then(() => [])]);
}

async function newToken(): Promise<string> {
  return (await bench.registerDevice()).token;
}

async function connectWithWrongAuth(): Promise<number[]> {
  return readResponse(connectPacket(newDeviceToken(), WRONG_AUTH));
}

async function expectValidDevicesConnect(times = 1): Promise<void> {
  for (let n = 0; n < times; n += 1) {
    expect(await readResponse(connectPacket(await newToken()))).toEqual(ACCEPTED);
  }
}

describe('devices that share an address with a client', () => {
  test('that guesses credentials connect at once, and the guesses are rejected', async () => {
    const attempts = Array.from({ length: 200 }, connectWithWrongAuth);
    await attempts[0];
    await expectValidDevicesConnect(5);
    expect(await attempts[0]).toEqual(BAD_CREDENTIALS);
    await Promise.all(attempts);
    await expectValidDevicesConnect(5);
    expect(await connectWithWrongAuth()).toEqual(BAD_CREDENTIALS);
  });

  test('that opens connections without CONNECT connect, and its oldest connections are evicted', async () => {
    const silentConnections = await openSilentConnections(700);
    const first = untilClosed(silentConnections[0] as Socket);
    await expectValidDevicesConnect(5);
    await first;
    expect(await readResponse(connectPacket(await newToken()), silentConnections.at(-1))).toEqual(
      ACCEPTED,
    );
  });

  test('that floods the gateway with wrong CONNECTs connect during the flood', async () => {
    let isStopped = false;
    async function attack(): Promise<void> {
      while (!isStopped) {
        const socket = openSocket(gateway.ports.mqtt);
        socket.write(connectPacket(newDeviceToken(), WRONG_AUTH));
        sockets.push(socket);
        await once(socket, 'connect');
      }
    }
    const attacks = Array.from({ length: 8 }, attack);
    await until(() => sockets.length > 1_500);
    await expectValidDevicesConnect(50);
    isStopped = true;
    await Promise.all(attacks);
  });

  test('that opens more connections than its rate allows connect', async () => {
    for (let n = 0; n < 32; n += 1)
      for (const connection of await openSilentConnections(100)) connection.destroy();
    await expectValidDevicesConnect(5);
  });
});

test('many slow devices of one address do not evict each other', async () => {
  const DEVICE_COUNT = 900;
  const tokens = await Promise.all(Array.from({ length: DEVICE_COUNT }, newToken));
  const responses = tokens.map(async (token) => {
    const connection = openConnection();
    await once(connection, 'connect');
    // Round trips of a phone and the handshakes before the CONNECT.
    await sleep(300);
    return readResponse(connectPacket(token), connection);
  });
  const accepted = (await Promise.all(responses)).filter(([, , , code]) => code === 0);
  expect(accepted).toHaveLength(DEVICE_COUNT);
});

test('wrong credentials are rejected with a growing delay, within 5 s', async () => {
  const startedAt = performance.now();
  const tookMs: number[] = [];
  await Promise.all(
    Array.from({ length: 100 }, async () => {
      expect(await connectWithWrongAuth()).toEqual(BAD_CREDENTIALS);
      tookMs.push(performance.now() - startedAt);
    }),
  );
  expect(tookMs[30]).toBeGreaterThan(1_000);
  expect(tookMs[60]).toBeGreaterThan(4_000);
  expect(tookMs[99]).toBeLessThan(MAX_RESPONSE_MS);
});

test('devices connect to a process that is full of connections without CONNECT', async () => {
  gateway = await bench.startGateway({ maxConnections: 100, hasAddressLimits: false });
  await openSilentConnections(300);
  await expectValidDevicesConnect(20);
});

describe('an imported device, whose credentials only MongoDB has,', () => {
  const AUTH = 'imported-secret';
  let lookups: number;

  beforeEach(async () => {
    lookups = 0;
    const { devices, ...store } = bench.store;
    async function findForConnect(token: string) {
      lookups += 1;
      return devices.findForConnect(token);
    }
    gateway = await bench.startGateway({
      store: { ...store, devices: { ...devices, findForConnect } },
    });
  });

  async function importDevice(): Promise<Buffer> {
    const token = await newToken();
    const mongo = await openMongo({ mongodb: bench.uri });
    const authDigest = createHash('sha256').update(AUTH).digest('hex');
    const { modifiedCount } = await mongo.db
      .collection<{ _id: string }>('devices')
      .updateOne({ _id: token }, { $set: { authDigest } });
    await mongo.close();
    expect(modifiedCount).toBe(1);
    return connectPacket(token, { password: Buffer.from(AUTH) });
  }

  test('is looked up at every connect', async () => {
    const bytes = await importDevice();
    for (let n = 0; n < 50; n += 1) expect(await readResponse(bytes)).toEqual(ACCEPTED);
  });

  test('gets CONNACK 3 after too many failed lookups of its address, and is never rejected', async () => {
    const bytes = await importDevice();
    for (let n = 0; n < 9; n += 1) await Promise.all(Array.from({ length: 100 }, sendWrongAuth));
    expect(lookups).toBeLessThan(600);
    const response = await readResponse(bytes);
    expect([[], ACCEPTED, UNAVAILABLE]).toContainEqual(response);
    expect(await readResponse(bytes, openConnection('127.0.0.2'))).toEqual(ACCEPTED);
    await expectValidDevicesConnect(5);
  });

  /** Sends a wrong CONNECT without waiting for the CONNACK. */
  async function sendWrongAuth(): Promise<void> {
    const socket = openConnection();
    await new Promise((resolve) =>
      socket.write(connectPacket(newDeviceToken(), WRONG_AUTH), resolve),
    );
  }
});
