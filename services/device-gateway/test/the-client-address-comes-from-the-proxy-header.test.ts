import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { createProxyWarner } from '@carillon/runtime/proxy-warner';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { WebSocket } from 'ws';
import { until } from '../../../test/support/until.ts';
import { untilClosed } from '../../../test/support/until-closed.ts';
import type { Gateway } from '../src/gateway.ts';
import { type CertificateFiles, makeCertificateFiles } from './certificate-files.ts';
import { ANY_PORT, type GatewayUnderTest, startGatewayUnderTest } from './gateway-under-test.ts';
import { createHeader, SIGNATURE } from './proxy-header.ts';
import {
  ACCEPTED,
  BAD_CREDENTIALS,
  connectPacket,
  openSocket,
  readUntilClosed,
  sendAndRead,
  sendUntilClosed,
  WRONG_AUTH,
} from './raw-connection.ts';

const HEADER = createHeader('198.51.100.7');
const HEADER_V1 = Buffer.from('PROXY TCP4 198.51.100.7 10.0.0.1 8080 1883\r\n');
const NO_HEADER = Buffer.alloc(0);
const HEALTH_CHECK = Buffer.concat([SIGNATURE, Buffer.from([0x20, 0, 0, 0])]);

let bench: GatewayUnderTest;
let files: CertificateFiles;
beforeAll(async () => {
  [bench, files] = await Promise.all([startGatewayUnderTest(), makeCertificateFiles()]);
});
afterAll(async () => {
  await bench?.stop();
  await files?.remove();
});

/** Starts a gateway; returns it and its warnings, logged and recorded. */
async function startGateway(settings: { hasProxyHeader?: boolean } = {}) {
  const recorded: string[] = [];
  const logged: unknown[] = [];
  const proxyWarner = createProxyWarner({
    log: { warn: (_fields: unknown, text?: string) => void logged.push(text) },
    record: async (kind) => void recorded.push(kind),
  });
  const listen = { mqtt: ANY_PORT, mqtts: ANY_PORT, ws: ANY_PORT, tls: files };
  const gateway = await bench.startGateway({ ...settings, proxyWarner, listen });
  return { gateway, recorded, logged };
}

/** Connects a device, to show that the gateway serves others. */
async function expectServed({ ports }: Gateway, before: Buffer = NO_HEADER): Promise<void> {
  const socket = openSocket(ports.mqtt);
  const bytes = Buffer.concat([before, connectPacket(await bench.newToken())]);
  expect(await sendAndRead(socket, bytes, 4)).toEqual(ACCEPTED);
  socket.destroy();
}

describe('without PROXY_PROTOCOL', () => {
  test.each([
    ['version 2', HEADER],
    ['version 1', HEADER_V1],
  ])('a thousand headers of %s before MQTT cause one warning', async (_version, header) => {
    const { gateway, recorded, logged } = await startGateway();
    await expectServed(gateway);
    expect(recorded).toEqual([]);
    for (let n = 0; n < 10; n += 1) {
      const some = Array.from({ length: 100 }, () => sendUntilClosed(gateway.ports.mqtt, header));
      expect((await Promise.all(some)).flat()).toEqual([]);
    }
    expect(recorded).toEqual(['gateway-proxy-header']);
    expect(logged).toEqual([expect.stringContaining('set PROXY_PROTOCOL=on')]);
    await expectServed(gateway);
  });

  test('a header before WebSocket causes a warning, and still gets 400', async () => {
    const { gateway, recorded } = await startGateway();
    const response = await sendUntilClosed(gateway.ports.ws, HEADER);
    expect(Buffer.from(response).toString()).toMatch('HTTP/1.1 400 Bad Request');
    expect(recorded).toEqual(['gateway-proxy-header']);
  });

  test('a header before TLS causes a warning, a client that does not trust the certificate none', async () => {
    const { gateway, recorded } = await startGateway();
    const distrustful = connectTls({ port: gateway.ports.mqtts, host: '127.0.0.1' });
    await untilClosed(distrustful.on('error', () => undefined));
    expect(recorded).toEqual([]);
    const plain = openSocket(gateway.ports.mqtts);
    plain.write(HEADER);
    const secure = connectTls({ socket: plain, ca: files.ca, host: '127.0.0.1' });
    secure.on('error', () => undefined);
    await untilClosed(plain);
    await until(() => recorded.length > 0);
    expect(recorded).toEqual(['gateway-no-tls']);
  });

  test('bytes of another protocol cause no warning', async () => {
    const { gateway, recorded } = await startGateway();
    await sendUntilClosed(gateway.ports.mqtt, Buffer.from('GET / HTTP/1.1\r\n\r\n'));
    await sendUntilClosed(gateway.ports.mqtt, HEADER);
    expect(recorded).toEqual(['gateway-proxy-header']);
  });

  test('a private address above its rate of connections causes a warning, and its devices connect', async () => {
    const { gateway, recorded } = await startGateway();
    // The rate refills meanwhile, so a slow machine needs more than its 3,000.
    for (let n = 0; n < 200 && recorded.length === 0; n += 1) {
      const some = Array.from({ length: 100 }, () =>
        sendUntilClosed(gateway.ports.mqtt, Buffer.from('x')),
      );
      await Promise.all(some);
    }
    expect(recorded).toEqual(['gateway-limited-private-address']);
    for (let n = 0; n < 5; n += 1) await expectServed(gateway);
  });
});

/** Encodes the IPv4-mapped IPv6 address that a balancer on IPv6 sends for IPv4 clients. */
function createMappedHeader(address: string): Buffer {
  const mapped = (ipv4: string) => [...Array(10).fill(0), 255, 255, ...ipv4.split('.').map(Number)];
  const addresses = [...mapped(address), ...mapped('10.0.0.1')];
  return Buffer.concat([
    SIGNATURE,
    Buffer.from([0x21, 0x21, 0, 36, ...addresses, 0x1f, 0x90, 0x07, 0x5b]),
  ]);
}

describe('with PROXY_PROTOCOL=on', () => {
  let gateway: Gateway;
  let recorded: string[];
  beforeAll(async () => {
    ({ gateway, recorded } = await startGateway({ hasProxyHeader: true }));
  });

  test('a device connects, however the header is split', async () => {
    const bytes = Buffer.concat([
      createHeader('198.51.100.7', Buffer.alloc(100)),
      connectPacket(await bench.newToken()),
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
    const token = await bench.newToken();
    const plain = openSocket(gateway.ports.mqtts);
    plain.write(HEADER);
    const secure = connectTls({ socket: plain, ca: files.ca, host: '127.0.0.1' });
    expect(await sendAndRead(secure, connectPacket(token), 4)).toEqual(ACCEPTED);
    secure.destroy();

    const createConnection = () => {
      const socket = openSocket(gateway.ports.ws);
      socket.write(HEADER);
      return socket;
    };
    const webSocket = new WebSocket('ws://127.0.0.1/', 'mqtt', { createConnection });
    await once(webSocket, 'open');
    webSocket.send(connectPacket(token));
    expect([...((await once(webSocket, 'message'))[0] as Buffer)]).toEqual(ACCEPTED);
    webSocket.terminate();
  });

  test.each([
    ['no header', NO_HEADER],
    ['a header of version 1', HEADER_V1],
    ['a second header', Buffer.concat([HEADER, HEADER])],
    ['a header that is too long', createHeader('198.51.100.7', Buffer.alloc(2_000))],
  ])('a connection with %s is closed without a response or a warning', async (_what, start) => {
    const bytes = Buffer.concat([start, connectPacket(await bench.newToken())]);
    expect(await sendUntilClosed(gateway.ports.mqtt, bytes)).toEqual([]);
    await expectServed(gateway, HEADER);
    expect(recorded).toEqual([]);
  });

  test('a health check is accepted without a device; a header that does not end is awaited longer', async () => {
    const [unfinished, healthCheck] = [1, 2].map(() => openSocket(gateway.ports.mqtt));
    unfinished?.write(SIGNATURE);
    healthCheck?.end(HEALTH_CHECK);
    await readUntilClosed(healthCheck as Socket);
    expect(unfinished?.closed).toBe(false);
    unfinished?.destroy();
  });

  describe.each([
    ['IPv4', createHeader('203.0.113.9'), createHeader('203.0.113.10')],
    ['mapped IPv4', createMappedHeader('198.51.100.9'), createMappedHeader('198.51.100.10')],
    ['IPv4, and mapped IPv4', createHeader('192.0.2.9'), createMappedHeader('192.0.2.10')],
  ])('addresses in headers (%s)', (_form, one, other) => {
    async function connectWithWrongAuth(header: Buffer): Promise<number[]> {
      const wrong = connectPacket(await bench.newToken(), WRONG_AUTH);
      return sendUntilClosed(gateway.ports.mqtt, Buffer.concat([header, wrong]));
    }

    test('determine which client is slowed down', async () => {
      let answered = 0;
      const attempts = Array.from({ length: 40 }, async () => {
        const response = await connectWithWrongAuth(one);
        answered += 1;
        return response;
      });
      await until(() => answered >= 5);
      expect(await connectWithWrongAuth(other)).toEqual(BAD_CREDENTIALS);
      expect(answered).toBeLessThan(40);
      expect(await Promise.all(attempts)).toEqual(Array(40).fill(BAD_CREDENTIALS));
    });

    test('determine whose connections without CONNECT are evicted', async () => {
      const sockets = [other, ...Array.from({ length: 600 }, () => one)].map((header) => {
        const socket = openSocket(gateway.ports.mqtt).resume();
        socket.write(header);
        return socket;
      });
      await untilClosed(sockets[1] as Socket);
      const connect = connectPacket(await bench.newToken());
      expect(await sendAndRead(sockets[0] as Socket, connect, 4)).toEqual(ACCEPTED);
      for (const socket of sockets) socket.destroy();
    });
  });
});
