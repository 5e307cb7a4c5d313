import { once } from 'node:events';
import { connect as connectTls, type PeerCertificate, type TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { WebSocket } from 'ws';
import { until } from '../../../test/support/until.ts';
import type { Gateway } from '../src/gateway.ts';
import { type CertificateFiles, makeCertificateFiles } from './certificate-files.ts';
import { ANY_PORT, type GatewayUnderTest, startGatewayUnderTest } from './gateway-under-test.ts';
import {
  connectPacket,
  measureCloseMs,
  openSocket,
  sendAndRead,
  sendUntilClosed,
} from './raw-connection.ts';

const ACCEPTED = [0x20, 2, 0, 0];
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

async function newToken(): Promise<string> {
  return (await bench.registerDevice()).token;
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
    for (const isConnected of [false, true]) {
      const socket = await openTls12();
      const connect = connectPacket(await newToken());
      if (isConnected) expect(await sendAndRead(socket, connect, 4)).toEqual(ACCEPTED);
      const isRenegotiated = new Promise<boolean>((resolve) => {
        socket.renegotiate({}, (error) => resolve(error === null));
        socket.once('close', () => resolve(false));
      });
      expect(await measureCloseMs(socket)).toBeLessThan(2_000);
      expect(await isRenegotiated).toBe(false);
    }
    const push = await bench.createPush(neighbour.token);
    await bench.untilAcknowledged(push, neighbour.token);
    await neighbour.disconnect();
  });

  test('closes the connection at once after a broken record', async () => {
    const socket = openSocket(gateway.ports.mqtts);
    const secure = connectTls({ socket, ca: files.ca, host: '127.0.0.1' });
    secure.on('error', () => undefined);
    expect(await sendAndRead(secure, connectPacket(await newToken()), 4)).toEqual(ACCEPTED);
    socket.write(Buffer.from('17030300200000', 'hex'));
    socket.write(Buffer.alloc(64));
    expect(await measureCloseMs(socket)).toBeLessThan(2_000);
  });

  test('on the plain port, and plain MQTT on the TLS port, are closed at once', async () => {
    const socket = connectTls({ port: gateway.ports.mqtt, host: '127.0.0.1' });
    await expect(once(socket, 'secureConnect')).rejects.toThrow();
    const response = await sendUntilClosed(gateway.ports.mqtts, connectPacket(await newToken()));
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
    const bytes = Buffer.concat([connectPacket(await newToken()), PING, PING]);
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

test('a connection without CONNECT is closed after 5 s, also during a handshake', async () => {
  const { mqtt, mqtts, ws } = gateway.ports;
  const partialHandshakes: [number, string][] = [
    [mqtt, ''],
    [mqtts, '160301'],
    [ws, Buffer.from('GET / HTTP/1.1').toString('hex')],
  ];
  const closeTimes = partialHandshakes.map(([port, hex]) => {
    const socket = openSocket(port);
    socket.write(Buffer.from(hex, 'hex'));
    return measureCloseMs(socket);
  });
  for (const tookMs of await Promise.all(closeTimes)) {
    expect(tookMs).toBeGreaterThan(4_500);
    expect(tookMs).toBeLessThan(6_500);
  }
});
