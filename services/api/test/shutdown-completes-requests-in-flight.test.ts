import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLogger } from '@carillon/runtime/logger';
import { createMetrics } from '@carillon/runtime/metrics';
import { createBodyReader } from '@carillon/runtime/read-body';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { untilClosed } from '../../../test/support/until-closed.ts';
import { createRouting } from '../src/http/routing.ts';
import { serve } from '../src/http/server.ts';

const REQUEST = 'GET /when HTTP/1.1\r\nHost: x\r\n\r\n';
/** Longer than a connection may be idle during shutdown. */
const STALL_MS = 1_300;

let server: Awaited<ReturnType<typeof serve>>;
/** A delayed request: its arrival, and the release of its response. */
let requestArrived: Promise<void>;
let releaseResponse: () => void;
let stopped: Promise<void> | undefined;

beforeEach(async () => {
  const [arrival, responseRelease] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  requestArrived = arrival.promise;
  releaseResponse = responseRelease.resolve;
  const routing = createRouting({
    log: createLogger('stopping', 'fatal'),
    metrics: createMetrics(),
    authenticate: () => Promise.reject(new Error('no request of this test has a key')),
    countRequest: async () => undefined,
    readBody: createBodyReader(),
    onUnexpectedError: () => undefined,
  });
  const immediateRoute = routing.publicGet(async () => ({ now: true }));
  const delayedRoute = routing.publicGet(async () => {
    arrival.resolve();
    await responseRelease.promise;
    return { now: false };
  });
  server = await serve({ host: '127.0.0.1', port: 0 }, routing, [
    (router) => router.get('/when', immediateRoute).get('/later', delayedRoute),
  ]);
  stopped = undefined;
});
afterEach(async () => {
  releaseResponse();
  await (stopped ?? server.stop());
});

/** Opens a keep-alive connection and collects everything that it receives. */
async function openConnection(): Promise<{ socket: Socket; text: () => string }> {
  const socket = connect(server.port, '127.0.0.1');
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  await once(socket, 'connect');
  return { socket, text: () => text };
}

/** Stops this process's event loop. */
function freeze(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

test('a request that arrived while the stopping process was frozen gets a response', async () => {
  const { socket, text } = await openConnection();
  socket.write(REQUEST);
  await once(socket, 'data');
  expect(text()).toMatch(/^HTTP\/1\.1 200 .*connection: keep-alive/is);
  stopped = server.stop();
  // The bytes reach the kernel at once; then this process is frozen.
  socket.write(REQUEST);
  freeze(STALL_MS);
  await untilClosed(socket);
  expect(text().split('HTTP/1.1 200 ')).toHaveLength(3);
  expect(text()).toMatch(/connection: close.*"now":true}$/is);
  await stopped;
});

test('a request that a client could send only after a freeze of the machine gets a response', async () => {
  const { socket, text } = await openConnection();
  socket.write(REQUEST);
  await once(socket, 'data');
  stopped = server.stop();
  await sleep(STALL_MS / 4);
  // Client and server are one process here, which is frozen as a whole; the client continues after a moment.
  freeze(STALL_MS);
  await sleep(STALL_MS / 4);
  socket.write(REQUEST);
  await untilClosed(socket);
  expect(text().split('HTTP/1.1 200 ')).toHaveLength(3);
  await stopped;
});

test('the response to a request in flight closes its connection', async () => {
  const { socket, text } = await openConnection();
  socket.write(REQUEST.replace('/when', '/later'));
  await requestArrived;
  stopped = server.stop();
  await sleep(STALL_MS);
  expect(text()).toBe('');
  releaseResponse();
  await untilClosed(socket);
  expect(text()).toMatch(/^HTTP\/1\.1 200 .*connection: close.*"now":false}$/is);
});

test('idle connections do not delay the shutdown', async () => {
  const { socket } = await openConnection();
  socket.write(REQUEST);
  await once(socket, 'data');
  stopped = server.stop();
  await Promise.all([untilClosed(socket), stopped]);
});
