import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import {
  enqueueInboxRow,
  type GatewayUnderTest,
  startGatewayUnderTest,
  type TestPush,
} from './gateway-under-test.ts';
import { PACKET_TYPES, SENT_BY_DEVICES } from './packet-types.ts';
import {
  connectPacket,
  measureCloseMs,
  openSocket,
  sendAndRead,
  sendUntilClosed,
} from './raw-connection.ts';

const PING = Buffer.from([0xc0, 0]);
const PONG = [0xd0, 0];
const CLOSED_WITHIN_MS = 1_000;

let bench: GatewayUnderTest;
/** More pushes than a device may have in flight, so that a connection without receipts stays syncing. */
let inboxPushes: TestPush[];

beforeAll(async () => {
  bench = await startGatewayUnderTest();
  const token = await newToken();
  inboxPushes = await Promise.all(Array.from({ length: 17 }, () => bench.createPush(token)));
});

afterAll(() => bench.stop());

async function newToken(): Promise<string> {
  return (await bench.registerDevice()).token;
}

async function openPending(): Promise<Socket> {
  const socket = openSocket(bench.gateway.ports.mqtt);
  await once(socket, 'connect');
  return socket;
}

async function openLive(keepalive = 300): Promise<Socket> {
  const socket = await openPending();
  const token = await newToken();
  await sendAndRead(socket, connectPacket(token, { keepalive }), 4);
  return socket;
}

/** Opens a connection whose device does not acknowledge its inbox. */
async function openSyncing(): Promise<Socket> {
  const token = await newToken();
  for (const push of inboxPushes) await enqueueInboxRow(bench, token, push);
  const socket = await openPending();
  await sendAndRead(socket, connectPacket(token), 4 + 16 * 30);
  return socket;
}

/** Checks whether the connection is open: it responds to a ping, perhaps after other packets. */
async function respondsToPing(socket: Socket): Promise<boolean> {
  const responded = new Promise<boolean>((resolve) => {
    socket.on('data', (bytes: Buffer) => {
      if (bytes.includes(Buffer.from(PONG))) resolve(true);
    });
    socket.once('close', () => resolve(false));
  });
  socket.write(PING);
  return responded;
}

describe.each([
  { state: 'before CONNECT', open: openPending, accepted: ['connect'] },
  { state: 'syncing', open: openSyncing, accepted: SENT_BY_DEVICES },
  { state: 'live', open: openLive, accepted: SENT_BY_DEVICES },
])('a connection that is $state', ({ open, accepted }) => {
  test('accepts the allowed packets once and twice, and is closed by any other', async () => {
    for (const { name, bytes } of PACKET_TYPES) {
      for (const times of [1, 2]) {
        const socket = await open();
        socket.write(Buffer.concat(Array.from({ length: times }, () => bytes)));
        const isAccepted = accepted.includes(name) && name !== 'connect' && name !== 'disconnect';
        if (isAccepted) expect([name, await respondsToPing(socket)]).toEqual([name, true]);
        else
          expect([name, (await measureCloseMs(socket)) < CLOSED_WITHIN_MS]).toEqual([name, true]);
        socket.destroy();
      }
    }
  });

  test('is closed at once by a length above 8 KB', async () => {
    for (const { bytes } of PACKET_TYPES) {
      const socket = await open();
      socket.write(Buffer.from([bytes[0] ?? 0, 0xff, 0xff, 0x7f]));
      expect(await measureCloseMs(socket)).toBeLessThan(CLOSED_WITHIN_MS);
    }
  });
});

/** How long connections with an incomplete packet stay open: the first test that needs it measures all at once. */
let neverComplete: ReturnType<typeof measureNeverComplete> | undefined;
async function measureNeverComplete() {
  const [before, after, slow] = [await openPending(), await openLive(5), await openPending()];
  const connect = connectPacket(await newToken());
  before.write(connect.subarray(0, 20));
  after.write(Buffer.from([0x82, 100, 0]));
  const [beforeMs, afterMs, slowMs] = await Promise.all([
    measureCloseMs(before),
    measureCloseMs(after),
    sendByteByByte(slow, connect),
  ]);
  return { beforeMs, afterMs, slowMs };
}

test('half a packet closes the connection after 5 s before CONNECT, after one and a half keepalives later', async () => {
  neverComplete ??= measureNeverComplete();
  const { beforeMs, afterMs } = await neverComplete;
  expect(beforeMs).toBeLessThan(6_500);
  expect(afterMs).toBeGreaterThan(7_000);
  expect(afterMs).toBeLessThan(9_500);
});

test('a CONNECT that arrives too slowly, byte by byte, closes the connection', async () => {
  neverComplete ??= measureNeverComplete();
  expect((await neverComplete).slowMs).toBeLessThan(6_500);
});

/** Sends ten bytes a second; returns the milliseconds until the gateway closes the connection. */
async function sendByteByByte(socket: Socket, bytes: Buffer): Promise<number> {
  const dripTimer = setInterval(
    () => socket.write(bytes.subarray(socket.bytesWritten).subarray(0, 1)),
    100,
  );
  const tookMs = await measureCloseMs(socket);
  clearInterval(dripTimer);
  return tookMs;
}

test('a client that floods before its CONNACK is closed', async () => {
  const connect = connectPacket(await newToken());
  const puback = Buffer.from([0x40, 2, 0, 1]);
  const flood = Buffer.concat([connect, ...Array.from({ length: 5_000 }, () => puback)]);
  expect(await sendUntilClosed(bench.gateway.ports.mqtt, flood)).toEqual([]);
});

test('hundreds of incomplete packets hold 8 KB each, and other devices are served', async () => {
  const CONNECTIONS = 300;
  const device = await bench.registerDevice();
  await device.connect();
  await bench.untilAcknowledged(await bench.createPush(device.token), device.token);
  const before = measureHeldBytes();
  const sockets = await Promise.all(Array.from({ length: CONNECTIONS }, openPending));
  const unfinished = Buffer.concat([Buffer.from([0x10, 0xff, 0x3f]), Buffer.alloc(8_100)]);
  for (const socket of sockets) socket.write(unfinished);
  await Promise.all(sockets.map((socket) => until(() => socket.bytesWritten > 8_000)));
  for (let n = 0; n < 20; n += 1) {
    const push = await bench.createPush(device.token);
    expect(await bench.dispatch(push, device.token)).toBe('acknowledged');
  }
  // Released buffers are collected in the background, a moment later.
  await until(() => (measureHeldBytes() - before) / CONNECTIONS < 8_400);
  for (const socket of sockets) socket.destroy();
  await device.disconnect();
});

/** Returns the bytes of buffers that are still referenced. */
function measureHeldBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  return process.memoryUsage().arrayBuffers;
}

test('a full process rejects devices with code 3, and accepts them when it has capacity', async () => {
  const gateway = await bench.startGateway({ maxConnections: 2 });
  const [first, second, third] = [await newToken(), await newToken(), await newToken()];
  const sockets = [openSocket(gateway.ports.mqtt), openSocket(gateway.ports.mqtt)];
  for (const [index, token] of [first, second].entries()) {
    const socket = sockets[index] as Socket;
    expect(await sendAndRead(socket, connectPacket(token), 4)).toEqual([0x20, 2, 0, 0]);
  }
  expect(await sendUntilClosed(gateway.ports.mqtt, connectPacket(third))).toEqual([0x20, 2, 0, 3]);
  sockets[0]?.destroy();
  const reconnect = () =>
    sendUntilClosed(
      gateway.ports.mqtt,
      Buffer.concat([connectPacket(third), Buffer.from([0xe0, 0])]),
    );
  await until(async () => (await reconnect())[3] === 0);
  sockets[1]?.destroy();
});

test('a device that connects more than 120 times a minute gets code 3', async () => {
  const token = await newToken();
  const connectAndDisconnect = Buffer.concat([connectPacket(token), Buffer.from([0xe0, 0])]);
  const responses: number[][] = [];
  for (let n = 0; n < 121; n += 1)
    responses.push(await sendUntilClosed(bench.gateway.ports.mqtt, connectAndDisconnect));
  expect(responses.slice(0, 120).every((response) => response[3] === 0)).toBe(true);
  expect(responses[120]).toEqual([0x20, 2, 0, 3]);
});
