import { once } from 'node:events';
import { connect as connectTls } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { WebSocket } from 'ws';
import type { Gateway } from '../src/gateway.ts';
import { type CertificateFiles, makeCertificateFiles } from './certificate-files.ts';
import { ANY_PORT, type Bench, startBench } from './gateway-under-test.ts';
import { closedWithin, connectPacket, exchange, openSocket, talk } from './raw-link.ts';

const ACCEPTED = [0x20, 2, 0, 0];
const REFUSED = [0x20, 2, 0, 4];
const SIGNATURE = Buffer.from('0d0a0d0a000d0a515549540a', 'hex');

let bench: Bench;
let files: CertificateFiles;
let gateway: Gateway;

beforeAll(async () => {
  [bench, files] = await Promise.all([startBench(), makeCertificateFiles()]);
  gateway = await bench.startGateway({
    hasProxyHeader: true,
    listen: { mqtt: ANY_PORT, mqtts: ANY_PORT, ws: ANY_PORT, tls: files },
  });
});

afterAll(async () => {
  await bench.stop();
  await files.remove();
});

/** A header of version 2 that says that the client is at an IPv4 address. */
function headerFrom(address: string, extension = Buffer.alloc(0)): Buffer {
  const ports = Buffer.from([0x1f, 0x90, 0x07, 0x5b]);
  const addresses = Buffer.from([...address.split('.').map(Number), 10, 0, 0, 1]);
  const rest = Buffer.concat([addresses, ports, extension]);
  return Buffer.concat([
    SIGNATURE,
    Buffer.from([0x21, 0x11, rest.length >> 8, rest.length & 255]),
    rest,
  ]);
}

const HEALTH_CHECK = Buffer.concat([SIGNATURE, Buffer.from([0x20, 0, 0, 0])]);

describe('behind a load balancer that speaks the PROXY protocol', () => {
  test('a device connects, however the header is cut', async () => {
    const { token } = await bench.device();
    const bytes = Buffer.concat([
      headerFrom('198.51.100.7', Buffer.alloc(100)),
      connectPacket(token),
    ]);
    for (const piece of [bytes.length, 1, 20]) {
      const socket = openSocket(gateway.ports.mqtt).setNoDelay();
      const answered = exchange(socket, bytes.subarray(0, piece), 4);
      for (let at = piece; at < bytes.length; at += piece)
        socket.write(bytes.subarray(at, at + piece));
      expect(await answered).toEqual(ACCEPTED);
      socket.destroy();
    }
  });

  test('TLS and WebSocket begin behind the header', async () => {
    const { token } = await bench.device();
    const plain = openSocket(gateway.ports.mqtts);
    plain.write(headerFrom('198.51.100.7'));
    const secure = connectTls({ socket: plain, ca: files.ca, host: '127.0.0.1' });
    expect(await exchange(secure, connectPacket(token), 4)).toEqual(ACCEPTED);
    secure.destroy();

    const createConnection = () => {
      const socket = openSocket(gateway.ports.ws);
      socket.write(headerFrom('198.51.100.7'));
      return socket;
    };
    const webSocket = new WebSocket('ws://127.0.0.1/', 'mqtt', { createConnection });
    await once(webSocket, 'open');
    webSocket.send(connectPacket(token));
    expect([...((await once(webSocket, 'message'))[0] as Buffer)]).toEqual(ACCEPTED);
    webSocket.terminate();
  });

  test('a link without the header, or with another one, is closed unanswered', async () => {
    const { token } = await bench.device();
    const version1 = Buffer.from('PROXY TCP4 198.51.100.7 10.0.0.1 8080 1883\r\n');
    const tooLong = headerFrom('198.51.100.7', Buffer.alloc(2_000));
    for (const start of [Buffer.alloc(0), version1, tooLong]) {
      expect(await talk(gateway.ports.mqtt, Buffer.concat([start, connectPacket(token)]))).toEqual(
        [],
      );
    }
  });

  test('a health check needs no device', async () => {
    const socket = openSocket(gateway.ports.mqtt);
    socket.end(HEALTH_CHECK);
    expect(await closedWithin(socket)).toBeLessThan(4_000);
  });

  test('a header that does not come ends the link after 5 s', async () => {
    const socket = openSocket(gateway.ports.mqtt);
    socket.write(SIGNATURE);
    expect(await closedWithin(socket)).toBeLessThan(6_500);
  });

  test('who guesses is held off by the address in the header, and nobody else', async () => {
    const { token } = await bench.device();
    const wrong = connectPacket(token, { password: Buffer.from('f'.repeat(64)) });
    const guess = () => talk(gateway.ports.mqtt, Buffer.concat([headerFrom('203.0.113.9'), wrong]));
    const answers = await Promise.all(Array.from({ length: 100 }, guess));
    expect(answers).toContainEqual(REFUSED);
    expect(await guess()).toEqual([]);
    const other = Buffer.concat([headerFrom('203.0.113.10'), wrong]);
    expect(await talk(gateway.ports.mqtt, other)).toEqual(REFUSED);
  });
});
