import { once } from 'node:events';
import { connect as connectTls, type PeerCertificate } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { WebSocket } from 'ws';
import { until } from '../../../test/support/until.ts';
import type { Gateway } from '../src/gateway.ts';
import { type CertificateFiles, makeCertificateFiles } from './certificate-files.ts';
import { ANY_PORT, type Bench, startBench } from './gateway-under-test.ts';
import { closedWithin, connectPacket, openSocket, talk } from './raw-link.ts';

const ACCEPTED = [0x20, 2, 0, 0];
const PING = Buffer.from([0xc0, 0]);

let bench: Bench;
let files: CertificateFiles;
let gateway: Gateway;

beforeAll(async () => {
  [bench, files] = await Promise.all([startBench(), makeCertificateFiles()]);
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
  return (await bench.device()).token;
}

describe('a device receives, acknowledges and comes back', () => {
  test.each(['mqtt', 'mqtts', 'ws'] as const)('over %s', async (scheme) => {
    const device = await bench.device(gateway, { scheme, ca: files.ca });
    for (const time of [1, 2]) {
      await device.connect();
      const push = await bench.push(device.token, { data: `{"time":${time}}` });
      await until(async () => (await bench.handOver(push, device.token)) === 'acknowledged');
      expect(device.arrivals.at(-1)).toMatchObject({ payload: `{"time":${time}}` });
      await device.disconnect();
      await until(async () => !(await bench.isOnline(device.token)));
    }
  });
});

describe('TLS', () => {
  async function serialNumber(): Promise<string> {
    const socket = connectTls({ port: gateway.ports.mqtts, host: '127.0.0.1', ca: files.ca });
    await once(socket, 'secureConnect');
    const { serialNumber: serial } = socket.getPeerCertificate() as PeerCertificate;
    socket.destroy();
    return serial;
  }

  test('takes a new certificate without dropping a link', async () => {
    const device = await bench.device(gateway, { scheme: 'mqtts', ca: files.ca });
    await device.connect();
    const before = await serialNumber();
    await files.renew();
    await until(async () => (await serialNumber()) !== before);
    const push = await bench.push(device.token);
    await until(async () => (await bench.handOver(push, device.token)) === 'acknowledged');
    await device.disconnect();
  });

  test('on the plain port, and plain MQTT on the port of TLS, are closed at once', async () => {
    const socket = connectTls({ port: gateway.ports.mqtt, host: '127.0.0.1' });
    await expect(once(socket, 'secureConnect')).rejects.toThrow();
    const answer = await talk(gateway.ports.mqtts, connectPacket(await newToken()));
    expect(answer).not.toEqual(ACCEPTED);
  });
});

describe('WebSocket', () => {
  test('speaks mqtt on any path', async () => {
    const webSocket = openWebSocket('/deep/path?with=query');
    await once(webSocket, 'open');
    expect(webSocket.protocol).toBe('mqtt');
    webSocket.terminate();
  });

  test('carries packets cut over frames, and several in a frame', async () => {
    const webSocket = openWebSocket();
    await once(webSocket, 'open');
    const answers: number[] = [];
    webSocket.on('message', (bytes: Buffer) => answers.push(...bytes));
    const bytes = Buffer.concat([connectPacket(await newToken()), PING, PING]);
    webSocket.send(bytes.subarray(0, 10));
    webSocket.send(bytes.subarray(10));
    await until(() => answers.length === 8);
    expect(answers).toEqual([...ACCEPTED, 0xd0, 0, 0xd0, 0]);
    webSocket.close();
    await once(webSocket, 'close');
  });

  test('with a text frame, or a message above 8 KB, is closed', async () => {
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

  test('is what a plain request is told to speak', async () => {
    const answer = await fetch(`http://127.0.0.1:${gateway.ports.ws}/`);
    expect(answer.status).toBe(426);
    expect(answer.headers.get('upgrade')).toBe('websocket');
    expect(await answer.text()).toContain('MQTT over WebSocket');
  });
});

test('a link that does not come to its CONNECT is closed after 5 s, whatever it waits in', async () => {
  const { mqtt, mqtts, ws } = gateway.ports;
  const beginnings: [number, string][] = [
    [mqtt, ''],
    [mqtts, '160301'],
    [ws, Buffer.from('GET / HTTP/1.1').toString('hex')],
  ];
  const waits = beginnings.map(([port, hex]) => {
    const socket = openSocket(port);
    socket.write(Buffer.from(hex, 'hex'));
    return closedWithin(socket);
  });
  for (const tookMs of await Promise.all(waits)) {
    expect(tookMs).toBeGreaterThan(4_500);
    expect(tookMs).toBeLessThan(6_500);
  }
});
