import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { type Bench, owe, startBench, type TestPush } from './gateway-under-test.ts';
import { PACKET_TYPES, SENT_BY_DEVICES } from './packet-types.ts';
import { closedWithin, connectPacket, exchange, openSocket, talk } from './raw-link.ts';

const PING = Buffer.from([0xc0, 0]);
const PONG = [0xd0, 0];
const CLOSED_WITHIN_MS = 1_000;

let bench: Bench;
/** More than a device may have in flight, so that whoever owes them all stays draining. */
let owed: TestPush[];

beforeAll(async () => {
  bench = await startBench();
  const token = await newToken();
  owed = await Promise.all(Array.from({ length: 17 }, () => bench.push(token)));
});

afterAll(() => bench.stop());

async function newToken(): Promise<string> {
  return (await bench.device()).token;
}

async function stranger(): Promise<Socket> {
  const socket = openSocket(bench.gateway.ports.mqtt);
  await once(socket, 'connect');
  return socket;
}

async function live(keepalive = 300): Promise<Socket> {
  const socket = await stranger();
  const token = await newToken();
  await exchange(socket, connectPacket(token, { keepalive }), 4);
  return socket;
}

/** A link whose device is owed more than it has acknowledged. */
async function draining(): Promise<Socket> {
  const token = await newToken();
  for (const push of owed) await owe(bench, token, push);
  const socket = await stranger();
  await exchange(socket, connectPacket(token), 4 + 16 * 30);
  return socket;
}

/** Whether the link is open: it answers a ping, whatever else comes before. */
async function answersPing(socket: Socket): Promise<boolean> {
  const answered = new Promise<boolean>((resolve) => {
    socket.on('data', (bytes: Buffer) => {
      if (bytes.includes(Buffer.from(PONG))) resolve(true);
    });
    socket.once('close', () => resolve(false));
  });
  socket.write(PING);
  return answered;
}

describe.each([
  { state: 'before CONNECT', open: stranger, taken: ['connect'] },
  { state: 'draining', open: draining, taken: SENT_BY_DEVICES },
  { state: 'live', open: live, taken: SENT_BY_DEVICES },
])('a link that is $state', ({ open, taken }) => {
  test('takes what belongs there, once and twice, and is closed for anything else', async () => {
    for (const { name, bytes } of PACKET_TYPES) {
      for (const times of [1, 2]) {
        const socket = await open();
        socket.write(Buffer.concat(Array.from({ length: times }, () => bytes)));
        const isTaken = taken.includes(name) && name !== 'connect' && name !== 'disconnect';
        if (isTaken) expect([name, await answersPing(socket)]).toEqual([name, true]);
        else expect([name, (await closedWithin(socket)) < CLOSED_WITHIN_MS]).toEqual([name, true]);
        socket.destroy();
      }
    }
  });

  test('is closed at once when a length says more than 8 KB', async () => {
    for (const { bytes } of PACKET_TYPES) {
      const socket = await open();
      socket.write(Buffer.from([bytes[0] ?? 0, 0xff, 0xff, 0x7f]));
      expect(await closedWithin(socket)).toBeLessThan(CLOSED_WITHIN_MS);
    }
  });
});

test('half a packet is waited for 5 s before CONNECT, and one and a half keepalives after it', async () => {
  const half = connectPacket(await newToken()).subarray(0, 20);
  const before = await stranger();
  before.write(half);
  const after = await live(5);
  after.write(Buffer.from([0x82, 100, 0]));
  const [beforeMs, afterMs] = await Promise.all([closedWithin(before), closedWithin(after)]);
  expect(beforeMs).toBeLessThan(6_500);
  expect(afterMs).toBeGreaterThan(7_000);
  expect(afterMs).toBeLessThan(9_500);
});

test('a CONNECT that comes byte by byte, too slowly, is not waited for', async () => {
  const socket = await stranger();
  const bytes = connectPacket(await newToken());
  const drip = setInterval(
    () => socket.write(bytes.subarray(socket.bytesWritten).subarray(0, 1)),
    100,
  );
  const tookMs = await closedWithin(socket);
  clearInterval(drip);
  expect(tookMs).toBeLessThan(6_500);
});

test('who floods before the CONNACK is closed, and holds 8 KB at most', async () => {
  const connect = connectPacket(await newToken());
  const puback = Buffer.from([0x40, 2, 0, 1]);
  const flood = Buffer.concat([connect, ...Array.from({ length: 5_000 }, () => puback)]);
  expect(await talk(bench.gateway.ports.mqtt, flood)).toEqual([]);
});

test('hundreds of unfinished packets hold 8 KB each, and other devices notice nothing', async () => {
  const LINKS = 300;
  const device = await bench.device();
  await device.connect();
  await until(
    async () =>
      (await bench.handOver(await bench.push(device.token), device.token)) === 'acknowledged',
  );
  const before = heldBytes();
  const sockets = await Promise.all(Array.from({ length: LINKS }, stranger));
  const unfinished = Buffer.concat([Buffer.from([0x10, 0xff, 0x3f]), Buffer.alloc(8_100)]);
  for (const socket of sockets) socket.write(unfinished);
  await Promise.all(sockets.map((socket) => until(() => socket.bytesWritten > 8_000)));
  for (let n = 0; n < 20; n += 1) {
    const push = await bench.push(device.token);
    expect(await bench.handOver(push, device.token)).toBe('acknowledged');
  }
  // What is no longer held is swept in the background, a moment later.
  await until(() => (heldBytes() - before) / LINKS < 8_400);
  for (const socket of sockets) socket.destroy();
  await device.disconnect();
});

/** Bytes of buffers that somebody still refers to. */
function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  return process.memoryUsage().arrayBuffers;
}

test('a process that is full turns new links away, and takes them again when there is room', async () => {
  const gateway = await bench.startGateway({ maxConnections: 2 });
  const [first, second, third] = [await newToken(), await newToken(), await newToken()];
  const sockets = [openSocket(gateway.ports.mqtt), openSocket(gateway.ports.mqtt)];
  for (const [index, token] of [first, second].entries()) {
    const socket = sockets[index] as Socket;
    expect(await exchange(socket, connectPacket(token), 4)).toEqual([0x20, 2, 0, 0]);
  }
  expect(await talk(gateway.ports.mqtt, connectPacket(third))).toEqual([]);
  sockets[0]?.destroy();
  const again = () =>
    talk(gateway.ports.mqtt, Buffer.concat([connectPacket(third), Buffer.from([0xe0, 0])]));
  await until(async () => (await again()).length === 4);
  sockets[1]?.destroy();
});

test('a device that comes back more often than twice a second for a minute is put off', async () => {
  const token = await newToken();
  const visit = Buffer.concat([connectPacket(token), Buffer.from([0xe0, 0])]);
  const answers: number[][] = [];
  for (let n = 0; n < 121; n += 1) answers.push(await talk(bench.gateway.ports.mqtt, visit));
  expect(answers.slice(0, 120).every((answer) => answer[3] === 0)).toBe(true);
  expect(answers[120]).toEqual([0x20, 2, 0, 3]);
});
