import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { newDeviceToken } from '@carillon/core/ids';
import { createMetrics } from '@carillon/runtime/metrics';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { generate, type Packet } from 'mqtt-packet';
import { WebSocket } from 'ws';
import { measureLag } from '../../../test/support/lag.ts';
import { until } from '../../../test/support/until.ts';
import type { Gateway, GatewaySettings } from '../src/gateway.ts';
import { type CertificateFiles, makeCertificateFiles } from './certificate-files.ts';
import {
  ANY_PORT,
  type GatewayUnderTest,
  startGatewayUnderTest,
  type TestPush,
} from './gateway-under-test.ts';
import { SIGNATURE } from './proxy-header.ts';
import {
  ACCEPTED,
  connack,
  connectPacket,
  openSocket,
  readUntilClosed,
  sendAndRead,
  sendUntilClosed,
  UNAVAILABLE,
  WRONG_AUTH,
} from './raw-connection.ts';

const PING = Buffer.from([0xc0, 0]);
const PONG = [0xd0, 0];
const DISCONNECT = Buffer.from([0xe0, 0]);

/** Every packet type of MQTT 3.1.1 and the two forbidden ones, each in its smallest form. */
const PACKETS: readonly (readonly [string, Packet | Buffer])[] = [
  ['reserved 0', Buffer.from([0x00, 0])],
  ['connect', { cmd: 'connect', clientId: 'x', protocolVersion: 5 }],
  ['connack', { cmd: 'connack', returnCode: 0, sessionPresent: false }],
  ...([0, 1, 2] as const).map((qos) => {
    const publish = { cmd: 'publish', topic: 'x', payload: 'y', qos, messageId: 1 } as const;
    return [`publish of QoS ${qos}`, { ...publish, dup: false, retain: true }] as const;
  }),
  ['puback', { cmd: 'puback', messageId: 4_711 }],
  ['pubrec', { cmd: 'pubrec', messageId: 1 }],
  ['pubrel', { cmd: 'pubrel', messageId: 1 }],
  ['pubcomp', { cmd: 'pubcomp', messageId: 1 }],
  ['subscribe', { cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: '#', qos: 1 }] }],
  ['suback', { cmd: 'suback', messageId: 1, granted: [1] }],
  ['unsubscribe', { cmd: 'unsubscribe', messageId: 1, unsubscriptions: ['#'] }],
  ['unsuback', { cmd: 'unsuback', messageId: 1, granted: [] }],
  ['pingreq', { cmd: 'pingreq' }],
  ['pingresp', { cmd: 'pingresp' }],
  ['disconnect', { cmd: 'disconnect' }],
  ['reserved 15', Buffer.from([0xf0, 0])],
];
const PACKET_TYPES = PACKETS.map(([name, packet]) => ({
  name,
  bytes: Buffer.isBuffer(packet) ? packet : generate(packet),
}));
/** Packets after which a connected device goes on. */
const HARMLESS = ['puback', 'subscribe', 'unsubscribe', 'pingreq'];

let bench: GatewayUnderTest;
let files: CertificateFiles;
/** More pushes than a device may have in flight, so that a connection without receipts stays syncing. */
let inboxPushes: TestPush[];
const sockets: Socket[] = [];

beforeAll(async () => {
  [bench, files] = await Promise.all([startGatewayUnderTest(), makeCertificateFiles()]);
  const token = await bench.newToken();
  inboxPushes = await Promise.all(Array.from({ length: 17 }, () => bench.createPush(token)));
});
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});
afterAll(async () => {
  await bench?.stop();
  await files?.remove();
});

/** Starts a gateway with metrics of its own. Returns a function that waits until a counter has counted under a label. */
async function startCounted(settings: Partial<GatewaySettings> = {}) {
  const metrics = createMetrics();
  const gateway = await bench.startGateway({ ...settings, metrics });
  return {
    gateway,
    async untilCounted(counter: 'connects' | 'closes', label: string, count = '[1-9]\\d*') {
      const sample = `^carillon_gateway_${counter}_total\\{\\w+="${label}"\\} ${count}$`;
      const isCounted = async () => new RegExp(sample, 'm').test((await metrics.expose()).text);
      await until(isCounted, { what: `${counter} has ${count} ${label}` });
    },
  };
}

function open(port = bench.gateway.ports.mqtt): Socket {
  const socket = openSocket(port);
  sockets.push(socket);
  return socket;
}

async function openPending({ ports }: Gateway = bench.gateway): Promise<Socket> {
  const socket = open(ports.mqtt);
  await once(socket, 'connect');
  return socket;
}

async function openLive(gateway?: Gateway, keepalive = 300): Promise<Socket> {
  const socket = await openPending(gateway);
  await sendAndRead(socket, connectPacket(await bench.newToken(), { keepalive }), 4);
  return socket;
}

/** Opens a connection whose device does not acknowledge its inbox. */
async function openSyncing(gateway?: Gateway): Promise<Socket> {
  const token = await bench.newToken();
  await bench.store.inbox.enqueue(
    inboxPushes.map(({ push, work }) => ({ token, push, work, position: 0, sent: false })),
  );
  const socket = await openPending(gateway);
  await sendAndRead(socket, connectPacket(token), 4 + 16 * 30);
  return socket;
}

/** Waits until the connection responds to a ping, perhaps after other packets. */
async function untilPong(socket: Socket): Promise<void> {
  const responded = new Promise<void>((resolve, reject) => {
    socket.on('data', (bytes: Buffer) => bytes.includes(Buffer.from(PONG)) && resolve());
    socket.once('close', () => reject(new Error('closed')));
  });
  socket.write(PING);
  await responded;
}

describe.each([
  { state: 'before CONNECT', openIn: openPending, harmless: [], counter: 'connects' },
  { state: 'syncing', openIn: openSyncing, harmless: HARMLESS, counter: 'closes' },
  { state: 'live', openIn: openLive, harmless: HARMLESS, counter: 'closes' },
] as const)('a connection that is $state', ({ openIn, harmless, counter }) => {
  test('accepts the allowed packets once and twice, and is closed by any other and by lengths above 8 KB', async () => {
    const { gateway, untilCounted } = await startCounted();
    let errors = 0;
    for (const { name, bytes } of PACKET_TYPES) {
      for (const sent of [bytes, Buffer.concat([bytes, bytes])]) {
        const socket = await openIn(gateway);
        socket.write(sent);
        if (harmless.some((one) => one === name)) await untilPong(socket);
        else await readUntilClosed(socket);
      }
      const tooLong = await openIn(gateway);
      tooLong.write(Buffer.from([bytes[0] ?? 0, 0xff, 0xff, 0x7f]));
      await readUntilClosed(tooLong);
      const ends = name === 'disconnect' && counter === 'closes';
      const isAnswered = name === 'connect' && counter === 'connects';
      errors += 1 + (harmless.some((one) => one === name) || ends || isAnswered ? 0 : 2);
    }
    await untilCounted(counter, 'protocol-error', `${errors}`);
  });
});

test('without a whole CONNECT a connection is closed after 5 s, without a whole packet after one and a half keepalives', async () => {
  const listen = { mqtt: ANY_PORT, mqtts: ANY_PORT, ws: ANY_PORT, tls: files };
  const { ports } = await bench.startGateway({ listen });
  const behindProxy = await bench.startGateway({ hasProxyHeader: true });
  const connect = connectPacket(await bench.newToken());
  const live = await openLive(undefined, 5);
  const [startedAt, lag] = [performance.now(), measureLag()];
  const closed: { what: string; tookMs: number }[] = [];
  async function start(what: string, socket: Socket, bytes: Buffer | string): Promise<void> {
    socket.write(bytes);
    await readUntilClosed(socket);
    closed.push({ what, tookMs: performance.now() - startedAt });
  }
  const slow = open(ports.mqtt);
  const dripTimer = setInterval(
    () => slow.write(connect.subarray(slow.bytesWritten).subarray(0, 1)),
    100,
  );
  const pending: [string, Socket, Buffer | string][] = [
    ['nothing', open(ports.mqtt), ''],
    ['half a CONNECT', open(ports.mqtt), connect.subarray(0, 20)],
    ['ten bytes a second', slow, connect.subarray(0, 1)],
    ['half a TLS handshake', open(ports.mqtts), Buffer.from('160301', 'hex')],
    ['half an upgrade', open(ports.ws), 'GET / HTTP/1.1'],
    ['half a PROXY header', open(behindProxy.ports.mqtt), SIGNATURE],
  ];
  const afterConnect = start('half a SUBSCRIBE', live, Buffer.from([0x82, 100, 0]));
  await Promise.all([...pending.map((args) => start(...args)), afterConnect]);
  clearInterval(dripTimer);
  const last = closed.pop();
  expect(last?.what).toBe('half a SUBSCRIBE');
  expect(last?.tookMs).toBeGreaterThan(7_000);
  expect((last?.tookMs ?? 0) - 3 * lag.stop()).toBeLessThan(9_500);
  for (const { tookMs } of closed) expect(tookMs).toBeGreaterThan(4_500);
});

test('a client that floods before its CONNACK is closed', async () => {
  const connect = connectPacket(await bench.newToken());
  const puback = Buffer.from([0x40, 2, 0, 1]);
  const flood = Buffer.concat([connect, ...Array.from({ length: 5_000 }, () => puback)]);
  expect(await sendUntilClosed(bench.gateway.ports.mqtt, flood)).toEqual([]);
});

test('a connected device that floods packets is closed', async () => {
  const connect = connectPacket(await bench.newToken());
  const pings = Buffer.from('c000'.repeat(1_000), 'hex');
  const response = await sendUntilClosed(bench.gateway.ports.mqtt, connect, pings);
  expect(response.length).toBeLessThan(200);
});

test('hundreds of incomplete packets hold 8 KB each, and other devices are served', async () => {
  const CONNECTIONS = 300;
  const device = await bench.registerDevice();
  await device.connect();
  await bench.untilAcknowledged(await bench.createPush(device.token), device.token);
  const before = measureHeldBytes();
  const unfinished = Buffer.concat([Buffer.from([0x10, 0xff, 0x3f]), Buffer.alloc(8_100)]);
  const pending = await Promise.all(Array.from({ length: CONNECTIONS }, () => openPending()));
  for (const socket of pending) socket.write(unfinished);
  await until(() => pending.every(({ bytesWritten }) => bytesWritten > 8_000));
  for (let n = 0; n < 20; n += 1) {
    const push = await bench.createPush(device.token);
    expect(await bench.dispatch(push, device.token)).toBe('acknowledged');
  }
  // Released buffers are collected in the background, a moment later.
  await until(() => (measureHeldBytes() - before) / CONNECTIONS < 8_400);
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
  const { ports } = await bench.startGateway({ maxConnections: 2 });
  const connects = await Promise.all(
    [1, 2, 3].map(async () => connectPacket(await bench.newToken())),
  );
  const [first, second, third] = connects as [Buffer, Buffer, Buffer];
  const socket = open(ports.mqtt);
  expect(await sendAndRead(socket, first, 4)).toEqual(ACCEPTED);
  expect(await sendAndRead(open(ports.mqtt), second, 4)).toEqual(ACCEPTED);
  expect(await sendUntilClosed(ports.mqtt, third)).toEqual(UNAVAILABLE);
  socket.destroy();
  await until(async () => (await sendUntilClosed(ports.mqtt, third, DISCONNECT))[3] === 0);
});

test('a device that connects more than 120 times a minute gets code 3', async () => {
  const { ports } = await bench.startGateway();
  const connect = connectPacket(await bench.newToken());
  const codes: (number | undefined)[] = [];
  for (let n = 0; n < 121; n += 1)
    codes.push((await sendUntilClosed(ports.mqtt, connect, DISCONNECT))[3]);
  expect(codes).toEqual([...Array(120).fill(0), 3]);
});

describe('rejections are counted by reason:', () => {
  test('wrong credentials, unknown devices, versions of MQTT, and pages of foreign origins', async () => {
    const { gateway, untilCounted } = await startCounted();
    const token = await bench.newToken();
    for (const [code, bytes] of [
      [4, connectPacket(token, WRONG_AUTH)],
      [5, connectPacket(newDeviceToken())],
      [1, connectPacket(token, { protocolVersion: 5 })],
    ] as const) {
      expect(await sendAndRead(open(gateway.ports.mqtt), bytes, 4)).toEqual(connack(code));
      await untilCounted('connects', `refused-${code}`);
    }
    const headers = { origin: 'https://evil.example' };
    const page = new WebSocket(`ws://127.0.0.1:${gateway.ports.ws}/`, ['mqtt'], { headers });
    page.on('error', () => undefined);
    await once(page, 'unexpected-response');
    page.terminate();
    await untilCounted('connects', 'foreign-origin');
  });

  test('devices of an app above its share, connections that give way to another app, and before CONNECT', async () => {
    const { gateway, untilCounted } = await startCounted({ maxConnections: 2 });
    const connect = async (app: string) => {
      const bytes = connectPacket(await bench.newToken(app));
      return (await sendAndRead(open(gateway.ports.mqtt), bytes, 4))[3];
    };
    const [greedy, modest] = ['a'.repeat(24), 'b'.repeat(24)];
    for (const code of [0, 0, 3]) expect(await connect(greedy ?? '')).toBe(code);
    await untilCounted('connects', 'refused-3');
    expect(await connect(modest ?? '')).toBe(0);
    await untilCounted('closes', 'over-share');
    open(gateway.ports.mqtt);
    open(gateway.ports.mqtt);
    await untilCounted('connects', 'gave-way');
  });
});
