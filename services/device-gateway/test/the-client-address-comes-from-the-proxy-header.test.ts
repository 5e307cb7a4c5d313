import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { WebSocket } from 'ws';
import { untilClosed } from '../../../test/support/until-closed.ts';
import type { Gateway } from '../src/gateway.ts';
import { type CertificateFiles, makeCertificateFiles } from './certificate-files.ts';
import { ANY_PORT, type GatewayUnderTest, startGatewayUnderTest } from './gateway-under-test.ts';
import { createHeader, SIGNATURE } from './proxy-header.ts';
import {
  connectPacket,
  measureCloseMs,
  openSocket,
  sendAndRead,
  sendUntilClosed,
} from './raw-connection.ts';

const ACCEPTED = [0x20, 2, 0, 0];
const BAD_CREDENTIALS = [0x20, 2, 0, 4];

let bench: GatewayUnderTest;
let files: CertificateFiles;
let gateway: Gateway;

beforeAll(async () => {
  [bench, files] = await Promise.all([startGatewayUnderTest(), makeCertificateFiles()]);
  gateway = await bench.startGateway({
    hasProxyHeader: true,
    listen: { mqtt: ANY_PORT, mqtts: ANY_PORT, ws: ANY_PORT, tls: files },
  });
});

afterAll(async () => {
  await bench.stop();
  await files.remove();
});

/** Encodes the IPv4-mapped IPv6 address that a balancer on IPv6 sends for IPv4 clients. */
function createMappedHeader(address: string): Buffer {
  const mapped = (ipv4: string) => [
    ...Array(10).fill(0),
    0xff,
    0xff,
    ...ipv4.split('.').map(Number),
  ];
  const addresses = Buffer.from([...mapped(address), ...mapped('10.0.0.1')]);
  const ports = Buffer.from([0x1f, 0x90, 0x07, 0x5b]);
  return Buffer.concat([SIGNATURE, Buffer.from([0x21, 0x21, 0, 36]), addresses, ports]);
}

const HEALTH_CHECK = Buffer.concat([SIGNATURE, Buffer.from([0x20, 0, 0, 0])]);

const FORMS = [
  ['IPv4', createHeader('203.0.113.9'), createHeader('203.0.113.10')],
  ['mapped IPv4', createMappedHeader('198.51.100.9'), createMappedHeader('198.51.100.10')],
  ['IPv4, and mapped IPv4', createHeader('192.0.2.9'), createMappedHeader('192.0.2.10')],
] as const;

/** Runs all forms at once, each with addresses of its own: slowing down takes seconds. */
let slowedDown: Record<string, Promise<void>> | undefined;
function slowDownAll(): Record<string, Promise<void>> {
  const begun = FORMS.map(([form, one, other]) => [form, slowDown(one, other)] as const);
  // Its own test reports its failure.
  for (const [, checked] of begun) checked.catch(() => undefined);
  return Object.fromEntries(begun);
}

async function slowDown(one: Buffer, other: Buffer): Promise<void> {
  const registrations = Array.from({ length: 41 }, () => bench.registerDevice());
  const [first, ...devices] = await Promise.all(registrations);
  const attempts = devices.map(({ token }) => connectWithWrongAuth(one, token));
  await untilEnded(attempts, 5);
  const all = Promise.all(attempts);
  const ofOther = connectWithWrongAuth(other, first?.token ?? '');
  expect(await Promise.race([all.then(() => 'slowed down'), ofOther])).toEqual(BAD_CREDENTIALS);
  expect(new Set((await all).map(String))).toEqual(new Set([String(BAD_CREDENTIALS)]));
}

/** Waits until `count` promises have ended, in any order. */
function untilEnded(promises: readonly Promise<unknown>[], count: number): Promise<void> {
  let missing = count;
  return new Promise((resolve) => {
    const end = () => {
      missing -= 1;
      if (missing === 0) resolve();
    };
    for (const promise of promises) promise.then(end, end);
  });
}

async function connectWithWrongAuth(header: Buffer, token: string): Promise<number[]> {
  const wrong = connectPacket(token, { password: Buffer.from('f'.repeat(64)) });
  return sendUntilClosed(gateway.ports.mqtt, Buffer.concat([header, wrong]));
}

describe('behind a load balancer with the PROXY protocol', () => {
  test('a device connects, however the header is split', async () => {
    const { token } = await bench.registerDevice();
    const bytes = Buffer.concat([
      createHeader('198.51.100.7', Buffer.alloc(100)),
      connectPacket(token),
    ]);
    for (const piece of [bytes.length, 1, 20]) {
      const socket = openSocket(gateway.ports.mqtt).setNoDelay();
      const response = sendAndRead(socket, bytes.subarray(0, piece), 4);
      for (let at = piece; at < bytes.length; at += piece)
        socket.write(bytes.subarray(at, at + piece));
      expect(await response).toEqual(ACCEPTED);
      socket.destroy();
    }
  });

  test('TLS and WebSocket start after the header', async () => {
    const { token } = await bench.registerDevice();
    const plain = openSocket(gateway.ports.mqtts);
    plain.write(createHeader('198.51.100.7'));
    const secure = connectTls({ socket: plain, ca: files.ca, host: '127.0.0.1' });
    expect(await sendAndRead(secure, connectPacket(token), 4)).toEqual(ACCEPTED);
    secure.destroy();

    const createConnection = () => {
      const socket = openSocket(gateway.ports.ws);
      socket.write(createHeader('198.51.100.7'));
      return socket;
    };
    const webSocket = new WebSocket('ws://127.0.0.1/', 'mqtt', { createConnection });
    await once(webSocket, 'open');
    webSocket.send(connectPacket(token));
    expect([...((await once(webSocket, 'message'))[0] as Buffer)]).toEqual(ACCEPTED);
    webSocket.terminate();
  });

  test('a connection without the header, or with another one, is closed without a response', async () => {
    const { token } = await bench.registerDevice();
    const version1 = Buffer.from('PROXY TCP4 198.51.100.7 10.0.0.1 8080 1883\r\n');
    const tooLong = createHeader('198.51.100.7', Buffer.alloc(2_000));
    for (const start of [Buffer.alloc(0), version1, tooLong]) {
      expect(
        await sendUntilClosed(gateway.ports.mqtt, Buffer.concat([start, connectPacket(token)])),
      ).toEqual([]);
    }
  });

  test('a health check is accepted without a device', async () => {
    const socket = openSocket(gateway.ports.mqtt);
    socket.end(HEALTH_CHECK);
    expect(await measureCloseMs(socket)).toBeLessThan(4_000);
  });

  test('a missing header closes the connection after 5 s', async () => {
    const socket = openSocket(gateway.ports.mqtt);
    socket.write(SIGNATURE);
    expect(await measureCloseMs(socket)).toBeLessThan(6_500);
  });

  describe.each(FORMS)('addresses in headers (%s)', (form, one, other) => {
    test('determine which client is slowed down', () => {
      slowedDown ??= slowDownAll();
      return slowedDown[form];
    });

    test('determine whose connections without CONNECT are evicted', async () => {
      const sockets: Socket[] = [];
      for (const header of [other, ...Array.from({ length: 600 }, () => one)]) {
        const socket = openSocket(gateway.ports.mqtt).resume();
        sockets.push(socket);
        socket.write(header);
      }
      await untilClosed(sockets[1] as Socket);
      const { token } = await bench.registerDevice();
      expect(await sendAndRead(sockets[0] as Socket, connectPacket(token), 4)).toEqual(ACCEPTED);
      for (const socket of sockets) socket.destroy();
    });
  });
});
