import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { WebSocket } from 'ws';
import type { Gateway } from '../src/gateway.ts';
import { isOriginAllowed, parseOrigins } from '../src/origins.ts';
import { type GatewayUnderTest, startGatewayUnderTest } from './gateway-under-test.ts';
import { connectPacket } from './raw-connection.ts';

const ACCEPTED = [0x20, 2, 0, 0];

let bench: GatewayUnderTest;
beforeAll(async () => {
  bench = await startGatewayUnderTest();
});
afterAll(() => bench.stop());

function openPage(gateway: Gateway, origin?: string): WebSocket {
  const url = `ws://127.0.0.1:${gateway.ports.ws}/`;
  const headers = origin === undefined ? {} : { origin };
  return new WebSocket(url, ['mqtt'], { headers }).on('error', () => undefined);
}

/** Returns the status of a rejected upgrade. */
async function readRejectionStatus(page: WebSocket): Promise<number | undefined> {
  const [, response] = (await once(page, 'unexpected-response')) as [unknown, IncomingMessage];
  response.resume();
  return response.statusCode;
}

async function expectConnected(page: WebSocket): Promise<void> {
  await once(page, 'open');
  page.send(connectPacket((await bench.registerDevice()).token));
  expect([...((await once(page, 'message'))[0] as Buffer)]).toEqual(ACCEPTED);
  page.terminate();
}

describe('a web page of an origin that is not configured', () => {
  test('gets 403 at every attempt, and a device of the same address connects', async () => {
    for (const origin of ['https://evil.example', 'http://localhost:3000', 'null', 'file://']) {
      expect(await readRejectionStatus(openPage(bench.gateway, origin))).toBe(403);
    }
    const attempts = Array.from({ length: 600 }, () =>
      readRejectionStatus(openPage(bench.gateway, 'https://evil.example')),
    );
    expect(new Set(await Promise.all(attempts))).toEqual(new Set([403]));
    await expectConnected(openPage(bench.gateway));
  });

  test('connects when its origin, or every origin, is configured', async () => {
    for (const text of ['https://app.example, https://shop.example', '*']) {
      const gateway = await bench.startGateway({ webSocketOrigins: parseOrigins(text) });
      await expectConnected(openPage(gateway, 'https://shop.example'));
      const other = openPage(gateway, 'https://shop.example.evil.example');
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
