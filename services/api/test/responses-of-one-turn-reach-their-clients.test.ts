import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createLogger } from '@carillon/runtime/logger';
import { createMetrics } from '@carillon/runtime/metrics';
import { createBodyReader } from '@carillon/runtime/read-body';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createRouting } from '../src/http/routing.ts';
import { serve } from '../src/http/server.ts';

const REQUEST = 'GET /now HTTP/1.1\r\nHost: x\r\n\r\n';
/** More than the responses that wait for the end of a turn. */
const CONNECTIONS = 100;

let server: Awaited<ReturnType<typeof serve>>;

beforeAll(async () => {
  const routing = createRouting({
    log: createLogger('turns', 'fatal'),
    metrics: createMetrics(),
    authenticate: () => Promise.reject(new Error('no request of this test has a key')),
    countRequest: async () => undefined,
    readBody: createBodyReader(),
    onUnexpectedError: () => undefined,
  });
  const now = routing.publicGet(async () => ({ done: true }));
  const soon = routing.publicGet(async () => {
    await nextTurn();
    return { done: true };
  });
  server = await serve({ host: '127.0.0.1', port: 0 }, routing, [
    (router) => router.get('/now', now).get('/soon', soon),
  ]);
});
afterAll(() => server.stop());

// The end of the request stream arrives before the end of the turn in which the second path responds.
test.each(['/now', '/soon'])(
  'a client that sends %s and ends its side gets the response',
  async (path) => {
    const socket = connect(server.port, '127.0.0.1');
    await once(socket, 'connect');
    socket.end(REQUEST.replace('/now', path));
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*\{"done":true\}$/);
  },
);

test('more requests at once than wait for the end of a turn get one response each', async () => {
  const url = `http://127.0.0.1:${server.port}/now`;
  const responses = await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => (await fetch(url)).json()),
  );
  expect(responses).toEqual(Array(CONNECTIONS).fill({ done: true }));
});

test('pipelined requests get their responses in order', async () => {
  const socket = connect(server.port, '127.0.0.1');
  await once(socket, 'connect');
  socket.end(REQUEST + REQUEST.replace('/now', '/unknown') + REQUEST);
  const statuses = [...(await text(socket)).matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, code]) => code);
  expect(statuses).toEqual(['200', '404', '200']);
});
