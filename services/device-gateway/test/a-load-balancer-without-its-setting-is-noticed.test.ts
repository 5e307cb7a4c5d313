import { connect as connectTls } from 'node:tls';
import { createProxyWarner } from '@carillon/runtime/proxy-warner';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { untilClosed } from '../../../test/support/until-closed.ts';
import type { Gateway } from '../src/gateway.ts';
import { type CertificateFiles, makeCertificateFiles } from './certificate-files.ts';
import { ANY_PORT, type GatewayUnderTest, startGatewayUnderTest } from './gateway-under-test.ts';
import { connectPacket, openSocket, sendAndRead, sendUntilClosed } from './raw-connection.ts';

/** Version 2, of 198.51.100.7. */
const HEADER = Buffer.from('0d0a0d0a000d0a515549540a2111000cc63364070a0000011f90075b', 'hex');
const HEADER_V1 = Buffer.from('PROXY TCP4 198.51.100.7 10.0.0.1 8080 1883\r\n');
const BAD_REQUEST = 'HTTP/1.1 400 Bad Request';

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
async function expectServed(gateway: Gateway, before: Buffer = Buffer.alloc(0)): Promise<void> {
  const { token } = await bench.registerDevice();
  const socket = openSocket(gateway.ports.mqtt);
  const bytes = Buffer.concat([before, connectPacket(token)]);
  expect(await sendAndRead(socket, bytes, 4)).toEqual([0x20, 2, 0, 0]);
  socket.destroy();
}

test.each([
  ['version 2', HEADER],
  ['version 1', HEADER_V1],
])('a thousand PROXY headers of %s before MQTT cause one warning', async (_version, header) => {
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

test('a PROXY header before WebSocket causes a warning, and still gets 400', async () => {
  const { gateway, recorded } = await startGateway();
  const response = await sendUntilClosed(gateway.ports.ws, HEADER);
  expect(Buffer.from(response).toString()).toMatch(BAD_REQUEST);
  expect(recorded).toEqual(['gateway-proxy-header']);
});

test('a PROXY header before TLS causes a warning', async () => {
  const { gateway, recorded } = await startGateway();
  const plain = openSocket(gateway.ports.mqtts);
  plain.write(HEADER);
  const secure = connectTls({ socket: plain, ca: files.ca, host: '127.0.0.1' });
  secure.on('error', () => undefined);
  await untilClosed(plain);
  await until(() => recorded.length > 0);
  expect(recorded).toEqual(['gateway-no-tls']);
});

test('a TLS client that does not trust the certificate causes no warning', async () => {
  const { gateway, recorded } = await startGateway();
  const secure = connectTls({ port: gateway.ports.mqtts, host: '127.0.0.1' });
  secure.on('error', () => undefined);
  await untilClosed(secure);
  const other = openSocket(gateway.ports.mqtts);
  other.write(HEADER);
  await until(() => recorded.length > 0);
  expect(recorded).toEqual(['gateway-no-tls']);
  other.destroy();
});

test('bytes of another protocol cause no warning', async () => {
  const { gateway, recorded } = await startGateway();
  await sendUntilClosed(gateway.ports.mqtt, Buffer.from('GET / HTTP/1.1\r\n\r\n'));
  await sendUntilClosed(gateway.ports.mqtt, HEADER);
  expect(recorded).toEqual(['gateway-proxy-header']);
});

test('a private address above its rate of connections causes a warning', async () => {
  const { gateway, recorded } = await startGateway();
  // The rate refills meanwhile, so a slow machine needs more than its 3,000.
  for (let n = 0; n < 200 && recorded.length === 0; n += 1) {
    const some = Array.from({ length: 100 }, () =>
      sendUntilClosed(gateway.ports.mqtt, Buffer.from('x')),
    );
    await Promise.all(some);
  }
  expect(recorded).toEqual(['gateway-limited-private-address']);
  await expectServed(gateway);
});

test('a PROXY header causes no warning with PROXY_PROTOCOL=on', async () => {
  const { gateway, recorded } = await startGateway({ hasProxyHeader: true });
  await sendUntilClosed(gateway.ports.mqtt, Buffer.concat([HEADER, HEADER]));
  await expectServed(gateway, HEADER);
  expect(recorded).toEqual([]);
});
