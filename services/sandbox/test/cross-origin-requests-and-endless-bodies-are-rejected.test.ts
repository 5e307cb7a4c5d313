import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:http2';
import { request as secureRequest } from 'node:https';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import WebSocket from 'ws';
import { type SandboxUnderTest, startSandbox } from './sandbox-under-test.ts';

const FOREIGN_ORIGIN = 'http://attacker.example';
const MEGABYTE = Buffer.alloc(1_048_576, ' ');

let sandbox: SandboxUnderTest;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

interface HttpResponse {
  status: number;
  headers: IncomingMessage['headers'];
  body: string;
}

/** Sends a request with any Host and Origin, which fetch does not allow. @param megabytes size of a blank body */
function call(
  method: string,
  path: string,
  headers: Record<string, string> = {},
  megabytes = 0,
): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    const clientRequest = request(new URL(path, sandbox.control), { method, headers });
    clientRequest.once('error', reject);
    clientRequest.once('response', async (response) => {
      const body = await text(response);
      clientRequest.destroy();
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body });
    });
    for (let n = 0; n < megabytes; n += 1) clientRequest.write(MEGABYTE);
    clientRequest.end();
  });
}

function ownOrigin(host = '127.0.0.1'): { host: string; origin: string } {
  const hostAndPort = `${host}:${new URL(sandbox.control).port}`;
  return { host: hostAndPort, origin: `http://${hostAndPort}` };
}

const ENDPOINTS: [string, string][] = [
  ['GET', '/credentials'],
  ['GET', '/received'],
  ['GET', '/counts'],
  ['GET', '/watch'],
  ['PUT', '/scripts/apns/x'],
  ['PUT', '/servers/fcm'],
  ['DELETE', '/scripts'],
  ['DELETE', '/servers'],
  ['DELETE', '/received'],
  ['POST', '/web-push/subscriptions'],
  ['DELETE', '/web-push/subscriptions/x'],
  ['OPTIONS', '/servers/fcm'],
];

describe('a page of another origin', () => {
  test.each(ENDPOINTS)('gets 403 for %s %s and may not read the response', async (method, path) => {
    const { status, headers, body } = await call(method, path, { origin: FOREIGN_ORIGIN });
    expect({ status, body: JSON.parse(body) }).toEqual({
      status: 403,
      body: { error: expect.stringContaining(FOREIGN_ORIGIN) },
    });
    expect(headers['access-control-allow-origin']).toBeUndefined();
  });

  test.each([
    ['another port of this machine', 'http://127.0.0.1:1'],
    ['a page without an origin', 'null'],
    ['a name that begins like that of the sandbox', 'http://127.0.0.1.attacker.example'],
  ])('gets 403 when it is %s', async (_which, origin) => {
    expect((await call('DELETE', '/received', { origin })).status).toBe(403);
  });

  test('gets 403 for requests that browsers send without an Origin', async () => {
    const image = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' };
    expect((await call('GET', '/received', image)).status).toBe(403);
    const navigation = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' };
    expect((await call('GET', '/', navigation)).status).toBe(200);
  });

  test('gets 403 for the WebSocket of browsers', async () => {
    expect(await upgrade({ origin: FOREIGN_ORIGIN })).toBe(403);
    expect(await upgrade({ host: 'attacker.example' })).toBe(403);
  });
});

describe('an unknown host name that resolves to this machine', () => {
  test.each([
    'attacker.example',
    'attacker.example:4004',
    'localhost.attacker.example',
    '10.9.8.7',
  ])('gets 403: %s', async (host) => {
    const { status, body } = await call('GET', '/credentials', { host });
    expect({ status, body: JSON.parse(body) }).toEqual({
      status: 403,
      body: { error: expect.stringContaining('SANDBOX_PUBLIC_HOST') },
    });
  });
});

describe('an allowed client', () => {
  test.each(['127.0.0.1', 'localhost', '[::1]'])(
    'may be a page of the sandbox at %s',
    async (host) => {
      expect((await call('DELETE', '/received', ownOrigin(host))).status).toBe(200);
      expect((await call('GET', '/credentials', ownOrigin(host))).status).toBe(200);
    },
  );

  test('may send no Origin', async () => {
    expect((await call('PUT', '/servers/fcm')).status).toBe(200);
    expect((await call('GET', '/credentials')).status).toBe(200);
  });

  test('may be the push connection of Firefox, with its Origin', async () => {
    const { origin } = ownOrigin();
    expect(await upgrade({ origin: `${origin.replace('http', 'ws')}/` })).toBe(101);
    expect(await upgrade({})).toBe(101);
  });
});

describe('a page of the sandbox', () => {
  test.each([
    ['/', "connect-src 'self';"],
    ['/demo/', "connect-src 'self';"],
    ['/demo/?api=http%3A%2F%2F127.0.0.1%3A4000%2Fx', "connect-src 'self' http://127.0.0.1:4000;"],
    ['/demo/?api=http%3A%2F%2Fa%3Bscript-src', "connect-src 'self';"],
  ])('%s runs only its own scripts', async (path, connect) => {
    const policy = (await call('GET', path)).headers['content-security-policy'];
    expect(policy).toContain("default-src 'none';");
    expect(policy).toContain("script-src 'self';");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).toContain(connect);
  });
});

describe('an endless body', () => {
  test.each([
    ['of 96 MB', {}],
    ['of 96 MB with its length', { 'content-length': String(96 * MEGABYTE.length) }],
  ])('%s is rejected and not stored', async (_how, headers) => {
    const { status, body } = await call('PUT', '/servers/fcm', headers, 96);
    expect({ status, body: JSON.parse(body) }).toEqual({
      status: 413,
      body: { error: expect.stringContaining('1 MB') },
    });
  });

  test('is disconnected by APNs', async () => {
    expect(await sendEndless('apns', '/3/device/x')).toBe(403);
  });

  test.each([
    ['FCM', 'fcm', '/v1/projects/x/messages:send', 401],
    ["Google's OAuth", 'fcm', '/token', 400],
    ['a Web Push service', 'webPush', '/wpush/v2/x', 404],
  ] as const)('is cut off by %s over both versions of HTTP', async (_, server, path, status) => {
    expect(await sendEndless(server, path)).toBe(status);
    expect(await sendEndlessHttp1(server, path)).toBe(status);
  });
});

/** Sends until the server disconnects. @returns the status */
async function sendEndless(server: 'apns' | 'fcm' | 'webPush', path: string): Promise<number> {
  const { host, port } = sandbox.credentials[server];
  const session = connect(`https://${host}:${port}`, { ca: sandbox.credentials.ca });
  const stream = session.request({ ':method': 'POST', ':path': path });
  let status = 0;
  stream.on('response', (headers) => {
    status = Number(headers[':status']);
  });
  stream.on('error', () => undefined).resume();
  const writeMore = () =>
    void (!stream.destroyed && stream.write(MEGABYTE.subarray(0, 16_384), writeMore));
  writeMore();
  await new Promise((resolve) => stream.once('close', resolve));
  session.destroy();
  return status;
}

async function sendEndlessHttp1(server: 'fcm' | 'webPush', path: string): Promise<number> {
  const { host, port } = sandbox.credentials[server];
  const { ca } = sandbox.credentials;
  const clientRequest = secureRequest({ host, port, path, ca, method: 'POST', agent: false });
  let status = 0;
  clientRequest.on('response', (response) => {
    status = response.statusCode ?? 0;
    response.on('error', () => undefined).resume();
  });
  const writeMore = () =>
    void (!clientRequest.destroyed && clientRequest.write(MEGABYTE.subarray(0, 16_384), writeMore));
  writeMore();
  await new Promise((resolve) => clientRequest.on('error', () => undefined).once('close', resolve));
  return status;
}

/** Returns the status of a browser's WebSocket handshake. */
function upgrade(headers: Record<string, string>): Promise<number> {
  const socket = new WebSocket(sandbox.control.replace('http', 'ws'), 'push-notification', {
    headers,
  });
  return new Promise((resolve, reject) => {
    socket.once('open', () => resolve(101));
    socket.once('unexpected-response', (_, response) => {
      resolve(response.resume().statusCode ?? 0);
    });
    socket.once('error', reject);
  }).finally(() => socket.on('error', () => undefined).terminate()) as Promise<number>;
}
