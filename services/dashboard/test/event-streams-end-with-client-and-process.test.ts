import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createConnection, type Socket } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { digestToken, newToken } from '@carillon/admin/operators';
import { createLogger } from '@carillon/runtime/logger';
import { createMetrics } from '@carillon/runtime/metrics';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { z } from 'zod';
import { until } from '../../../test/support/until.ts';
import { createConsoleAddress } from '../src/http/address.ts';
import { createAudited } from '../src/http/audited.ts';
import { createEventStreams } from '../src/http/event-stream.ts';
import { createPages } from '../src/http/pages.ts';
import { defineRoute, EventStream } from '../src/http/route.ts';
import { createApiRouter } from '../src/http/routing.ts';
import { REQUEST_TIMEOUTS, serveConsole } from '../src/http/server.ts';
import { createSessionReader } from '../src/http/session-reader.ts';
import { createTokenReader } from '../src/http/token-reader.ts';
import { type ConsoleUnderTest, startConsole } from './console-under-test.ts';

/** Streams that their features have open. */
const open = new Set<(event: string, data: unknown) => void>();
const eventStreams = createEventStreams();

let started: ConsoleUnderTest;
type Server = Awaited<ReturnType<typeof serveConsole>>;
let server: Server;
/** Starts a further server with the same routes. */
let serve: (timeouts?: typeof REQUEST_TIMEOUTS) => Promise<Server>;
let cookie: string;

beforeAll(async () => {
  started = await startConsole();
  const { store } = started;
  const log = createLogger('dashboard', 'fatal');
  const address = createConsoleAddress(undefined);
  const events = defineRoute({
    ...({ method: 'get', path: '/events', role: 'viewer', account: 'any' } as const),
    input: z.object({}),
    handle: async () =>
      new EventStream((send, closed) => {
        open.add(send);
        closed.addEventListener('abort', () => open.delete(send));
      }),
  });
  const sessions = createSessionReader(store, address);
  const audited = createAudited(store, log);
  const readToken = createTokenReader(store);
  const needs = { log, metrics: createMetrics(), sessions, readToken, audited, eventStreams };
  const login = {
    ...{ method: 'post' as const, path: '/login', session: 'optional' as const },
    ...{ input: z.object({}), handle: async () => ({}) },
  };
  const api = createApiRouter([login], [events], needs);
  const parts = { address, api, pages: createPages('/nonexistent'), proxyHops: 0 };
  serve = (timeouts) =>
    serveConsole({ host: '127.0.0.1', port: 0 }, { ...parts, ...(timeouts && { timeouts }) });
  server = await serve();
  const operator = await store.operators.create({ name: 'Ann', role: 'viewer', accounts: [] });
  const token = newToken();
  await store.sessions.create(digestToken(token), operator ?? '');
  cookie = `carillon-session-${server.port}=${token}`;
});
afterAll(() => started.stop());

function connect(signal?: AbortSignal, { port } = server): Promise<Response> {
  const url = `http://127.0.0.1:${port}/api/events`;
  // The name of the cookie has the port.
  const headers = { cookie: cookie.replace(`${server.port}`, `${port}`) };
  return fetch(url, { headers, ...(signal && { signal }) });
}

/** Reads a stream until its text matches, or to its end. */
async function readUntil(response: Response, pattern: RegExp): Promise<string> {
  let text = '';
  const decoder = new TextDecoder();
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes, { stream: true });
    if (pattern.test(text)) break;
  }
  return text;
}

test('a stream needs a session, and sends events as JSON', async () => {
  const { port } = server;
  const refused = await fetch(`http://127.0.0.1:${port}/api/events`);
  expect([refused.status, await refused.json()]).toMatchObject([401, { code: 'UNAUTHENTICATED' }]);
  const response = await connect();
  expect(response.headers.get('content-type')).toContain('text/event-stream');
  await until(() => open.size === 1, { what: 'the stream is open' });
  for (const send of open) send('overview', { text: 'line\nbreak' });
  expect(await readUntil(response, /data:.*\n\n/)).toContain(
    'event: overview\ndata: {"text":"line\\nbreak"}\n\n',
  );
  await until(() => open.size === 0, { what: 'the stream has ended' });
});

test('a client that disconnects releases its stream', async () => {
  const leaving = new AbortController();
  await connect(leaving.signal);
  await until(() => open.size === 1, { what: 'the stream is open' });
  leaving.abort();
  await until(() => open.size === 0, { what: 'the stream has ended' });
});

/** Sends a text that is no complete request. */
function write(text: string, { port } = server): Socket {
  const socket = createConnection(port, '127.0.0.1');
  socket.on('error', () => undefined).write(text);
  return socket;
}

test('a request has 10 s for its headers and 30 s in all', async () => {
  // As it is documented for the console.
  const [headersTimeout, requestTimeout] = [10_000, 30_000];
  const documented = { headersTimeout, requestTimeout, connectionsCheckingInterval: 1_000 };
  expect(REQUEST_TIMEOUTS).toEqual(documented);
  const servers: unknown[] = [];
  const record = (message: unknown) => void servers.push((message as { server: unknown }).server);
  subscribe('http.server.request.start', record);
  await (await fetch(`http://127.0.0.1:${server.port}/`)).text();
  unsubscribe('http.server.request.start', record);
  expect(servers).toEqual([expect.objectContaining({ headersTimeout, requestTimeout })]);
});

test('a request that is never complete ends, and no stream', async () => {
  const timeouts = { headersTimeout: 200, requestTimeout: 400, connectionsCheckingInterval: 50 };
  const impatient = await serve(timeouts);
  const response = await connect(undefined, impatient);
  const head = 'POST /api/login HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n';
  const body = 'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{';
  const responses = [head, head + body].map((text) => readText(write(text, impatient)));
  for (const text of await Promise.all(responses)) expect(text).toMatch(/^HTTP\/1\.1 408 /);
  for (const send of open) send('overview', {});
  expect(await readUntil(response, /data:.*\n\n/)).toContain('event: overview');
  await until(() => open.size === 0, { what: 'the stream has ended' });
  await impatient.stop();
});

test('a client that does not read is disconnected before much data waits for it', async () => {
  const host = `127.0.0.1:${server.port}`;
  const socket = write(`GET /api/events HTTP/1.1\r\nhost: ${host}\r\ncookie: ${cookie}\r\n\r\n`);
  await until(() => open.size === 1, { what: 'the stream is open' });
  socket.pause();
  const text = 'x'.repeat(256 * 1_024);
  let sent = 0;
  const greatestShare = 32 * 1_024 * 1_024;
  while (open.size > 0 && sent < 2 * greatestShare) {
    for (const send of open) send('overview', { text });
    sent += text.length;
    // The socket's buffers hold some of the data.
    await setImmediate();
  }
  expect(open.size).toBe(0);
  expect(sent).toBeLessThan(greatestShare);
  socket.destroy();
});

test('a stopping process ends its streams at once', async () => {
  const response = await connect();
  await until(() => open.size === 1, { what: 'the stream is open' });
  const stopped = server.stop();
  eventStreams.closeAll();
  await expect(readUntil(response, /never/)).rejects.toThrow();
  await stopped;
  expect(open.size).toBe(0);
});
