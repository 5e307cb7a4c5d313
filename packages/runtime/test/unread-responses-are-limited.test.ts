import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, expect, test } from '@jest/globals';
import { limitLinks, MAX_HANDLED, MAX_WAITING_REQUESTS } from '../src/link-limits.ts';

const UNREAD_TIMEOUT_MS = 100;
/** Larger than what the kernel buffers of a connection hold. */
const LARGE = Buffer.alloc(32 * 1_048_576, 'x');
const requestFor = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;

let server: Server;
let handled: string[];
let open: Socket[];
afterEach(async () => {
  for (const socket of open) socket.destroy();
  server.close();
  server.closeAllConnections();
});

/** Starts a server: `/large` has a large response, `/slow` one after the limit has passed, others have their own path. */
async function start(unreadTimeoutMs = UNREAD_TIMEOUT_MS): Promise<void> {
  [handled, open] = [[], []];
  const links = limitLinks(async (request, response) => {
    handled.push(request.url ?? '');
    if (request.url === '/slow') await once(server, 'timeout');
    response.end(request.url === '/large' ? LARGE : `${request.url} `);
  }, unreadTimeoutMs);
  server = createServer(links.listener);
  links.watch(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
}

async function connectTo(): Promise<Socket> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  open.push(socket);
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket;
}

async function readUntil(socket: Socket, end: string): Promise<string> {
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  while (!text.endsWith(end)) await Promise.race([once(socket, 'data'), once(socket, 'close')]);
  return text;
}

async function untilNoConnections(): Promise<void> {
  while ((await countConnections()) > 0) await delay(20);
}

const countConnections = (): Promise<number> =>
  new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
  );

test('of pipelined requests whose responses are not read, few are handled, and the connection is closed', async () => {
  await start();
  const socket = await connectTo();
  socket.write(requestFor('/large').repeat(MAX_WAITING_REQUESTS));
  await untilNoConnections();
  expect(handled.length).toBe(MAX_HANDLED);
});

test('a connection with too many waiting requests is closed at once', async () => {
  await start();
  const socket = await connectTo();
  socket.write(requestFor('/slow').repeat(MAX_WAITING_REQUESTS * 2));
  await once(socket, 'close');
  expect(handled.length).toBe(MAX_HANDLED);
  expect(await countConnections()).toBe(0);
});

test('pipelined requests that may wait all get their responses in order', async () => {
  await start();
  const socket = await connectTo();
  const paths = Array.from({ length: MAX_WAITING_REQUESTS }, (_, n) => `/${n}`);
  socket.write(paths.map(requestFor).join(''));
  const text = await readUntil(socket, `/${paths.length - 1} `);
  expect(text.match(/\/\d+(?= )/g)?.filter((path) => paths.includes(path))).toEqual(paths);
});

test('a response that takes long to be made is sent', async () => {
  await start();
  const socket = await connectTo();
  socket.write(requestFor('/slow'));
  expect(await readUntil(socket, '/slow ')).toMatch(/^HTTP\/1\.1 200 OK/);
});

test('a client that reads slowly gets the whole response', async () => {
  // A pause of a busy machine is no pause of the client.
  const timeoutMs = 1_500;
  await start(timeoutMs);
  const socket = await connectTo();
  let received = 0;
  socket.on('data', ({ length }) => {
    received += length;
    socket.pause();
    setTimeout(() => socket.resume(), 4);
  });
  const startedAt = performance.now();
  socket.write(requestFor('/large'));
  while (received < LARGE.byteLength) await once(socket, 'data');
  expect(performance.now() - startedAt).toBeGreaterThan(timeoutMs);
});

test('an idle connection is closed after the keep-alive time, not after the limit', async () => {
  await start();
  server.keepAliveTimeout = 60_000;
  const socket = await connectTo();
  socket.write(requestFor('/a'));
  await readUntil(socket, '/a ');
  await delay(UNREAD_TIMEOUT_MS * 3);
  server.keepAliveTimeout = UNREAD_TIMEOUT_MS;
  socket.write(requestFor('/b'));
  await readUntil(socket, '/b ');
  await once(socket, 'close');
});
