import { once } from 'node:events';
import { connect } from 'node:net';
import { createLogger } from '@carillon/runtime/logger';
import { createMetrics } from '@carillon/runtime/metrics';
import { createBodyReader } from '@carillon/runtime/read-body';
import { afterEach, expect, test } from '@jest/globals';
import { environment } from '../src/environment.ts';
import { createRouting } from '../src/http/routing.ts';
import { serve } from '../src/http/server.ts';

/** For Google's load balancer, which keeps its connections for 600 s. */
const LONG_MS = 620_000;
/** Shorter than the default of Node, 5 s, and of the API. */
const SHORT_MS = 200;

let server: Awaited<ReturnType<typeof serve>> | undefined;
afterEach(() => server?.stop());

/** Sends a request to a server with this setting. Returns its `Keep-Alive` header, and the connection. */
async function request(keepAliveMs?: number) {
  const routing = createRouting({
    log: createLogger('idle', 'fatal'),
    metrics: createMetrics(),
    authenticate: () => Promise.reject(new Error('no request of this test has a key')),
    countRequest: async () => undefined,
    readBody: createBodyReader(),
    onUnexpectedError: () => undefined,
  });
  const handler = routing.publicGet(async () => ({ done: true }));
  server = await serve(
    { host: '127.0.0.1', port: 0 },
    routing,
    [(router) => router.get('/now', handler)],
    keepAliveMs === undefined ? {} : { keepAliveMs },
  );
  const socket = connect(server.port, '127.0.0.1');
  socket.setEncoding('latin1').write('GET /now HTTP/1.1\r\nHost: x\r\n\r\n');
  const [text] = (await once(socket, 'data')) as [string];
  return { socket, keepAlive: /keep-alive: (\S+)/i.exec(text)?.[1] };
}

test.each([
  ['by default', undefined, 'timeout=65'],
  ['as long as is set', LONG_MS, 'timeout=620'],
])('an idle connection stays open %s', async (_how, keepAliveMs, header) => {
  const { socket, keepAlive } = await request(keepAliveMs);
  expect(keepAlive).toBe(header);
  expect(socket.destroyed).toBe(false);
  socket.destroy();
});

test('an idle connection is closed after the time that is set', async () => {
  const { socket } = await request(SHORT_MS);
  await once(socket, 'end');
});

test('the setting is in seconds', () => {
  const { KEEP_ALIVE_SECONDS } = environment.shape;
  expect(KEEP_ALIVE_SECONDS.parse(undefined)).toBe(65);
  expect(KEEP_ALIVE_SECONDS.parse('620')).toBe(620);
  expect(KEEP_ALIVE_SECONDS.safeParse('0').success).toBe(false);
});
