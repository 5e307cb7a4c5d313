import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLogger } from '@carillon/runtime/logger';
import { createMetrics } from '@carillon/runtime/metrics';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { closed } from '../../../test/support/closed.ts';
import { createBodyReader } from '../src/http/read-body.ts';
import { createRouting } from '../src/http/route.ts';
import { serve } from '../src/http/server.ts';

const REQUEST = 'GET /when HTTP/1.1\r\nHost: x\r\n\r\n';
/** Longer than a connection may be silent while the process stops. */
const STANDSTILL_MS = 1_300;

let server: Awaited<ReturnType<typeof serve>>;
/** Requests to be answered later: when one is there, and the word to answer it. */
let asked: Promise<void>;
let answerNow: () => void;
let stopped: Promise<void> | undefined;

beforeEach(async () => {
  const [isAsked, isAllowed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  asked = isAsked.promise;
  answerNow = isAllowed.resolve;
  const routing = createRouting({
    log: createLogger('stopping', 'fatal'),
    metrics: createMetrics(),
    authenticate: () => Promise.reject(new Error('nobody brings a key')),
    countRequest: async () => undefined,
    readBody: createBodyReader(),
    onSurprise: () => undefined,
  });
  const now = routing.deviceQuestion(async () => ({ now: true }));
  const later = routing.deviceQuestion(async () => {
    isAsked.resolve();
    await isAllowed.promise;
    return { now: false };
  });
  server = await serve({ host: '127.0.0.1', port: 0 }, routing, [
    (router) => router.get('/when', now).get('/later', later),
  ]);
  stopped = undefined;
});
afterEach(async () => {
  answerNow();
  await (stopped ?? server.stop());
});

/** A connection that is kept, and all that was read from it. */
async function keep(): Promise<{ socket: Socket; text: () => string }> {
  const socket = connect(server.port, '127.0.0.1');
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  await once(socket, 'connect');
  return { socket, text: () => text };
}

test('a request that came while the stopping process stood still is answered', async () => {
  const { socket, text } = await keep();
  socket.write(REQUEST);
  await once(socket, 'data');
  expect(text()).toMatch(/^HTTP\/1\.1 200 .*connection: keep-alive/is);
  stopped = server.stop();
  // Written to the kernel at once; this same process then does nothing until the silence counts as over.
  socket.write(REQUEST);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, STANDSTILL_MS);
  await closed(socket);
  expect(text().split('HTTP/1.1 200 ')).toHaveLength(3);
  expect(text()).toMatch(/connection: close.*"now":true}$/is);
  await stopped;
});

test('a client whose request was under way is asked off its connection', async () => {
  const { socket, text } = await keep();
  socket.write(REQUEST.replace('/when', '/later'));
  await asked;
  stopped = server.stop();
  await sleep(STANDSTILL_MS);
  expect(text()).toBe('');
  answerNow();
  await closed(socket);
  expect(text()).toMatch(/^HTTP\/1\.1 200 .*connection: close.*"now":false}$/is);
});

test('silent connections do not keep the process', async () => {
  const { socket } = await keep();
  socket.write(REQUEST);
  await once(socket, 'data');
  stopped = server.stop();
  await Promise.all([closed(socket), stopped]);
});
