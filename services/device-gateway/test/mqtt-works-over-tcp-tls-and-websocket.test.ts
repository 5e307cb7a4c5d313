import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect as connectTls, type PeerCertificate, type TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { WebSocket } from 'ws';
import { until } from '../../../test/support/until.ts';
import type { Gateway } from '../src/gateway.ts';
import { isOriginAllowed, parseOrigins } from '../src/origins.ts';
import { type CertificateFiles, makeCertificateFiles } from './certificate-files.ts';
import { ANY_PORT, type GatewayUnderTest, startGatewayUnderTest } from './gateway-under-test.ts';
import {
  ACCEPTED,
  connectPacket,
  openSocket,
  readUntilClosed,
  sendAndRead,
  sendUntilClosed,
} from './raw-connection.ts';

const PING = Buffer.from([0xc0, 0]);

let bench: GatewayUnderTest;
let files: CertificateFiles;
let gateway: Gateway;

beforeAll(async () => {
  [bench, files] = await Promise.all([startGatewayUnderTest(), makeCertificateFiles()]);
  gateway = await bench.startGateway({
    listen: { mqtt: ANY_PORT, mqtts: ANY_PORT, ws: ANY_PORT, tls: files },
  });
});

afterAll(async () => {
  await bench.stop();
  await files.remove();
});

function openWebSocket(path = '/', protocols: string[] = ['mqtt']): WebSocket {
  const url = `ws://127.0.0.1:${gateway.ports.ws}${path}`;
  return new WebSocket(url, protocols).on('error', () => undefined);
}

/** Connects as a web page of an origin. */
function openPage(origin: string, { ports } = gateway): WebSocket {
  const page = new WebSocket(`ws://127.0.0.1:${ports.ws}/`, ['mqtt'], { headers: { origin } });
  return page.on('error', () => undefined);
}

describe('a device receives, acknowledges and reconnects', () => {
  test.each(['mqtt', 'mqtts', 'ws'] as const)('over %s', async (scheme) => {
    const device = await bench.registerDevice(gateway, { scheme, ca: files.ca });
    for (const time of [1, 2]) {
      await device.connect();
      const push = await bench.createPush(device.token, { data: `{"time":${time}}` });
      await bench.untilAcknowledged(push, device.token);
      expect(device.arrivals.at(-1)).toMatchObject({ payload: `{"time":${time}}` });
      await device.disconnect();
      await until(async () => !(await bench.isOnline(device.token)));
    }
  });
});

describe('TLS', () => {
  async function readSerialNumber(): Promise<string> {
    const socket = connectTls({ port: gateway.ports.mqtts, host: '127.0.0.1', ca: files.ca });
    await once(socket, 'secureConnect');
    const { serialNumber: serial } = socket.getPeerCertificate() as PeerCertificate;
    socket.destroy();
    return serial;
  }

  test('uses a new certificate without closing connections', async () => {
    const device = await bench.registerDevice(gateway, { scheme: 'mqtts', ca: files.ca });
    await device.connect();
    const before = await readSerialNumber();
    await files.renew();
    await until(async () => (await readSerialNumber()) !== before);
    const push = await bench.createPush(device.token);
    await bench.untilAcknowledged(push, device.token);
    await device.disconnect();
  });

  async function openTls12(): Promise<TLSSocket> {
    const at = { port: gateway.ports.mqtts, host: '127.0.0.1', ca: files.ca };
    const socket = connectTls({ ...at, maxVersion: 'TLSv1.2' }).on('error', () => undefined);
    await once(socket, 'secureConnect');
    return socket;
  }

  test('closes a client that renegotiates, and no other', async () => {
    const neighbour = await bench.registerDevice(gateway, { scheme: 'mqtts', ca: files.ca });
    await neighbour.connect();
    const silent = openSocket(gateway.ports.mqtts);
    for (const isConnected of [false, true]) {
      const socket = await openTls12();
      const connect = connectPacket(await bench.newToken());
      if (isConnected) expect(await sendAndRead(socket, connect, 4)).toEqual(ACCEPTED);
      const isRenegotiated = new Promise<boolean>((resolve) => {
        socket.renegotiate({}, (error) => resolve(error === null));
        socket.once('close', () => resolve(false));
      });
      await readUntilClosed(socket);
      expect(await isRenegotiated).toBe(false);
      // Not only because it sends no CONNECT.
      if (!isConnected) expect(silent.closed).toBe(false);
    }
    silent.destroy();
    const push = await bench.createPush(neighbour.token);
    await bench.untilAcknowledged(push, neighbour.token);
    await neighbour.disconnect();
  });

  test('closes the connection at once after a broken record', async () => {
    const socket = openSocket(gateway.ports.mqtts);
    const secure = connectTls({ socket, ca: files.ca, host: '127.0.0.1' });
    secure.on('error', () => undefined);
    expect(await sendAndRead(secure, connectPacket(await bench.newToken()), 4)).toEqual(ACCEPTED);
    socket.write(Buffer.from('17030300200000', 'hex'));
    socket.write(Buffer.alloc(64));
    await readUntilClosed(socket);
  });

  test('on the plain port, and plain MQTT on the TLS port, are closed at once', async () => {
    const socket = connectTls({ port: gateway.ports.mqtt, host: '127.0.0.1' });
    await expect(once(socket, 'secureConnect')).rejects.toThrow();
    const response = await sendUntilClosed(
      gateway.ports.mqtts,
      connectPacket(await bench.newToken()),
    );
    expect(response).not.toEqual(ACCEPTED);
  });
});

describe('WebSocket', () => {
  test.each([
    ['/', ['mqttv3.1'], 'mqttv3.1'],
    ['/', ['mqttv3.1', 'mqtt'], 'mqtt'],
    ['/', [], ''],
    ['/deep/path?with=query', ['mqtt'], 'mqtt'],
  ])('a client that connects to %s and offers %j gets "%s"', async (path, offered, protocol) => {
    const webSocket = openWebSocket(path, offered);
    await once(webSocket, 'open');
    expect(webSocket.protocol).toBe(protocol);
    webSocket.terminate();
  });

  test('accepts packets split over frames, and several packets in one frame', async () => {
    const webSocket = openWebSocket();
    await once(webSocket, 'open');
    const received: number[] = [];
    webSocket.on('message', (bytes: Buffer) => received.push(...bytes));
    const bytes = Buffer.concat([connectPacket(await bench.newToken()), PING, PING]);
    webSocket.send(bytes.subarray(0, 10));
    webSocket.send(bytes.subarray(10));
    await until(() => received.length === 8);
    expect(received).toEqual([...ACCEPTED, 0xd0, 0, 0xd0, 0]);
    webSocket.close();
    await once(webSocket, 'close');
  });

  test('is closed by a text frame or a message above 8 KB', async () => {
    for (const [message, code] of [
      ['text', 1_003],
      [Buffer.alloc(9_000, 0x10), 1_009],
    ] as const) {
      const webSocket = openWebSocket();
      await once(webSocket, 'open');
      webSocket.send(message);
      expect((await once(webSocket, 'close'))[0]).toBe(code);
    }
  });

  test('is required: a plain HTTP request gets 426', async () => {
    const response = await fetch(`http://127.0.0.1:${gateway.ports.ws}/`);
    expect(response.status).toBe(426);
    expect(response.headers.get('upgrade')).toBe('websocket');
    expect(await response.text()).toContain('MQTT over WebSocket');
  });
});

/** Returns the status of a rejected upgrade. */
async function readRejectionStatus(page: WebSocket): Promise<number | undefined> {
  const [, response] = (await once(page, 'unexpected-response')) as [unknown, IncomingMessage];
  response.resume();
  return response.statusCode;
}

async function expectConnected(page: WebSocket): Promise<void> {
  await once(page, 'open');
  page.send(connectPacket(await bench.newToken()));
  expect([...((await once(page, 'message'))[0] as Buffer)]).toEqual(ACCEPTED);
  page.terminate();
}

describe('a web page of an origin that is not configured', () => {
  test('gets 403 at every attempt, and a device of the same address connects', async () => {
    for (const origin of ['https://evil.example', 'http://localhost:3000', 'null', 'file://']) {
      expect(await readRejectionStatus(openPage(origin))).toBe(403);
    }
    const attempts = Array.from({ length: 600 }, () =>
      readRejectionStatus(openPage('https://evil.example')),
    );
    expect(new Set(await Promise.all(attempts))).toEqual(new Set([403]));
    await expectConnected(openWebSocket());
  });

  test('connects when its origin, or every origin, is configured', async () => {
    for (const text of ['https://app.example, https://shop.example', '*']) {
      const own = await bench.startGateway({ webSocketOrigins: parseOrigins(text) });
      await expectConnected(openPage('https://shop.example', own));
      const other = openPage('https://shop.example.evil.example', own);
      if (text === '*') await expectConnected(other);
      else expect(await readRejectionStatus(other)).toBe(403);
    }
  });
});

describe('an origin', () => {
  const allowed = parseOrigins('https://App.example:443, http://dev.example:3000,app://-');

  test.each([
    ['https://app.example', true],
    ['https://app.example:443', true],
    ['https://app.example:8443', false],
    ['http://app.example', false],
    ['http://dev.example:3000', true],
    ['http://dev.example', false],
    ['app://-', true],
    ['null', false],
    ['', false],
    // The gateway's own address, as Eclipse Paho sends it.
    ['https://push.example', true],
    // An attacker's host name can resolve to the gateway, but has no certificate.
    ['http://push.example', false],
  ])('%p of a connection to push.example is allowed: %p', (origin, isAllowed) => {
    expect(isOriginAllowed(allowed, { origin, host: 'push.example' })).toBe(isAllowed);
  });

  test.each([
    ['http://192.0.2.1:8083', '192.0.2.1:8083', true],
    ['http://[2001:db8::1]:8083', '[2001:db8::1]:8083', true],
    ['http://192.0.2.2:8083', '192.0.2.1:8083', false],
    ['http://192.0.2.1', '192.0.2.1:8083', false],
    ['http://192.0.2.1:8083', undefined, false],
  ])('%p of a connection to the address %p is allowed: %p', (origin, host, isAllowed) => {
    expect(isOriginAllowed(allowed, { origin, host })).toBe(isAllowed);
  });

  test.each(['app.example', 'https://app.example/path', 'https://*.example/', 'null'])(
    '%p is rejected as a setting',
    (text) => expect(() => parseOrigins(text)).toThrow('is not an origin'),
  );
});
