import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { listListeningAddresses } from '../support/attacks/listening-addresses.ts';
import { type Stack, startStack } from '../support/stack.ts';

const EVERY_ADDRESS = '0.0.0.0';
const LOOPBACK = '127.0.0.1';
const SHOP = 'https://shop.example';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({
    host: EVERY_ADDRESS,
    dashboards: 1,
    ownMongodb: true,
    env: { MQTT_WS_ORIGINS: SHOP },
  });
});
afterAll(() => stack?.stop());

/** Where a simulated provider listens. */
interface Provider {
  host: string;
  port: number;
}

const addressesOf = (url: string | undefined) =>
  listListeningAddresses(Number(new URL(url ?? '').port));

test('Redis, MongoDB, the sandbox and all ops ports listen on a loopback address, whatever CARILLON_HOST is', async () => {
  const { dev } = stack;
  const response = await fetch(`${dev.sandbox}/credentials`);
  const { apns, fcm, webPush } = (await response.json()) as Record<string, Provider>;
  const ofProviders = [apns, fcm, webPush].map((one) => `https://${one?.host}:${one?.port}`);
  const ops = dev.processes.flatMap((process) => process.ops ?? []);
  expect(ops.length).toBeGreaterThanOrEqual(5);
  for (const url of [dev.redis, dev.mongodb, dev.sandbox, ...ofProviders, ...ops])
    expect([url, addressesOf(url)]).toEqual([url, [LOOPBACK]]);
});

test('the API, the gateway and the console listen on every address', () => {
  const { api, mqtt, mqtts, ws, console } = stack.dev;
  for (const url of [api, mqtt, mqtts, ws, console])
    expect([url, addressesOf(url)]).toEqual([url, [EVERY_ADDRESS]]);
});

/** Returns the status of a WebSocket handshake of a page. */
async function upgrade(origin: string): Promise<number | undefined> {
  const headers = {
    ...{ connection: 'Upgrade', upgrade: 'websocket', origin },
    'sec-websocket-version': '13',
    'sec-websocket-key': Buffer.alloc(16).toString('base64'),
    'sec-websocket-protocol': 'mqtt',
  };
  const { hostname, port } = new URL(stack.dev.ws ?? '');
  const sent = request({ hostname, port, headers, agent: false });
  sent.on('error', () => undefined).end();
  const answered = await Promise.race([once(sent, 'upgrade'), once(sent, 'response')]);
  const [response] = answered as [IncomingMessage];
  response.socket.destroy();
  return response.statusCode;
}

test('npm start passes on MQTT_WS_ORIGINS: pages of these origins may connect, and of no other', async () => {
  expect(await upgrade(SHOP)).toBe(101);
  expect(await upgrade('https://evil.example')).toBe(403);
});
