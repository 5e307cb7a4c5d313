import { once } from 'node:events';
import { connect } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createMetrics } from '@carillon/runtime/metrics';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  openUnfinishedRequest,
  parseResponse,
} from '../../../test/support/attacks/unfinished-request.ts';
import { requestOnce } from '../../../test/support/guarantees/request-once.ts';
import { until } from '../../../test/support/until.ts';
import { untilClosed } from '../../../test/support/until-closed.ts';
import { environment } from '../src/environment.ts';
import { DeadlineExceededError } from '../src/http/deadlines.ts';
import type { ServerSettings } from '../src/http/server.ts';
import { createTestClock, type Edge, openConnection, startEdge } from './edge.ts';

const REQUEST = 'GET /now HTTP/1.1\r\nHost: x\r\n\r\n';
/** More than the responses that wait for the end of a turn. */
const CONNECTIONS = 100;
/** The response timeout, and the latest time of a response (guarantee G15). */
const [TIMEOUT_MS, LATEST_MS] = [2_700, 3_000];
/** Longer than a connection may be idle during shutdown. */
const STALL_MS = 1_300;

let clock: ReturnType<typeof createTestClock>;
let metrics: ReturnType<typeof createMetrics>;
let edge: Edge;
let unexpectedErrors: unknown[];
/** The result of the slow handlers, and how many of them have begun and ended. */
let result: PromiseWithResolvers<void>;
let begun: number;
let ended: number;
let stopped: Promise<void> | undefined;

/** Starts the edge with handlers that respond at once, in the next turn, and with the result. */
async function start(settings: ServerSettings = {}): Promise<void> {
  metrics = createMetrics();
  const slow = async () => {
    begun += 1;
    await result.promise.finally(() => (ended += 1));
    return { done: true };
  };
  const extraMs = ({ value }: { value: Record<string, unknown> }) => Number(value.moreMs ?? 0);
  edge = await startEdge(
    (routing) => (router) =>
      router
        .get(
          '/now',
          routing.publicGet(async () => ({ done: true })),
        )
        .get(
          '/soon',
          routing.publicGet(async () => ({ done: await nextTurn(true) })),
        )
        .get('/device', routing.publicGet(slow))
        .post('/unread', routing.publicGet(slow))
        .post('/backend', routing.withApiKey({ maxBodyBytes: 1_000, extraMs }, slow))
        .post(
          '/progress',
          routing.withApiKey({}, async ({ noteProgress }) => {
            noteProgress();
            return slow();
          }),
        ),
    { clock, metrics, onUnexpectedError: (error) => void unexpectedErrors.push(error) },
    { clock, ...settings },
  );
}

beforeEach(async () => {
  [clock, result] = [createTestClock(), Promise.withResolvers()];
  [unexpectedErrors, begun, ended, stopped] = [[], 0, 0, undefined];
  await start();
});
afterEach(async () => {
  result.resolve();
  await stop();
});

/** Stops the edge; then its idle connections end. */
function stop(): Promise<void> {
  stopped ??= edge.stop();
  clock.pass(STALL_MS);
  return stopped;
}

async function restart(settings: ServerSettings): Promise<void> {
  await stop();
  stopped = undefined;
  await start(settings);
}

const request = (method: string, path: string, body?: string) =>
  requestOnce({ method, url: new URL(path, edge.url), ...(body !== undefined && { body }) });
const send = (body = '{}') => request('POST', '/backend', body);
const untilBegun = (count: number) => until(() => begun === count);

/** Returns the number of responses with a status, from the metrics. */
async function countResponses(status: number): Promise<number> {
  const line = new RegExp(`^carillon_http_request_seconds_count{.*"${status}".*} (\\d+)$`, 'm');
  return Number(line.exec((await metrics.expose()).text)?.[1] ?? 0);
}

describe('a slow request', () => {
  test.each(['succeeds', 'fails'])(
    'gets one response, an error, if its handler %s after the deadline',
    async (ending) => {
      const responses = Promise.all([
        send(),
        request('GET', '/device'),
        request('POST', '/progress'),
      ]);
      await untilBegun(3);
      clock.pass(TIMEOUT_MS - 100);
      expect(unexpectedErrors).toEqual([]);
      clock.pass(LATEST_MS - TIMEOUT_MS);
      const [backend, device, progress] = await responses;
      expect([backend.status, device.status, device.retryAfter]).toEqual([500, 503, '5']);
      // MongoDB has answered a part of it, so the cause is load.
      expect([progress.status, progress.retryAfter]).toEqual([503, '5']);
      const areDeadlines = unexpectedErrors.map((error) => error instanceof DeadlineExceededError);
      expect(areDeadlines).toEqual([true, true]);
      if (ending === 'succeeds') result.resolve();
      else result.reject(new Error('too late'));
      await until(() => ended === 3);
      result = Promise.withResolvers();
      result.resolve();
      expect((await send()).status).toBe(200);
      const counts = await Promise.all([500, 503, 200].map(countResponses));
      expect(counts).toEqual([1, 1, 1]);
      expect(unexpectedErrors).toHaveLength(2);
    },
  );

  test('with a longer deadline succeeds after the usual one', async () => {
    const responses = Promise.all([send(), send('{"moreMs":1000}')]);
    await untilBegun(2);
    clock.pass(TIMEOUT_MS + 900);
    await until(() => unexpectedErrors.length === 1);
    result.resolve();
    expect((await responses).map(({ status }) => status)).toEqual([500, 200]);
  });

  test('may take all its time after its body has arrived', async () => {
    const { socket, text } = await openUnfinishedRequest(edge.url, '/backend', {
      ...{ contentLength: 8, sent: 6 },
    });
    await nextTurn();
    await request('GET', '/now');
    clock.pass(2 * LATEST_MS);
    socket.write('"}');
    await untilBegun(1);
    clock.pass(TIMEOUT_MS - 200);
    result.resolve();
    expect((await until(() => parseResponse(text()))).status).toBe(200);
    socket.destroy();
  });

  test('does not fail by time in which the process was frozen', async () => {
    const response = send();
    await untilBegun(1);
    clock.freeze(10 * LATEST_MS);
    clock.pass(1_000);
    result.resolve();
    expect((await response).status).toBe(200);
  });

  test('a part of which never arrives gets one response, and its connection ends', async () => {
    // The product's is 30 s.
    await restart({ requestTimeoutMs: 5_000 });
    const { socket, text } = await openUnfinishedRequest(edge.url, '/unread', {
      ...{ contentLength: 10, sent: 9 },
    });
    await untilBegun(1);
    clock.pass(LATEST_MS);
    result.resolve();
    await untilClosed(socket);
    expect(text().split('HTTP/1.1 ')).toHaveLength(2);
    expect(parseResponse(text())).toMatchObject({
      ...{ status: 503, json: { code: 'SERVICE_UNAVAILABLE' } },
    });
  });
});

describe('of the requests of one turn', () => {
  // The end of the request stream arrives before the end of the turn in which the second path responds.
  test.each(['/now', '/soon'])('one for %s gets its response after its end', async (path) => {
    const socket = connect(edge.port, '127.0.0.1');
    await once(socket, 'connect');
    socket.end(REQUEST.replace('/now', path));
    expect(await readText(socket)).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*\{"done":true\}$/);
  });

  test('each gets one response, however many they are', async () => {
    const ask = async () => (await fetch(`${edge.url}/now`)).json();
    const responses = await Promise.all(Array.from({ length: CONNECTIONS }, ask));
    expect(responses).toEqual(Array(CONNECTIONS).fill({ done: true }));
  });

  test('pipelined ones get their responses in order', async () => {
    const socket = connect(edge.port, '127.0.0.1');
    await once(socket, 'connect');
    socket.end(REQUEST + REQUEST.replace('/now', '/unknown') + REQUEST);
    const statuses = (await readText(socket)).matchAll(/HTTP\/1\.1 (\d+)/g);
    expect([...statuses].map(([, code]) => code)).toEqual(['200', '404', '200']);
  });
});

describe('an idle connection', () => {
  test.each([
    ['by default', undefined, 'timeout=65'],
    // For Google's load balancer, which keeps its connections for 600 s.
    ['as long as is set', 620_000, 'timeout=620'],
  ])('stays open %s', async (_how, keepAliveMs, header) => {
    await restart(keepAliveMs === undefined ? {} : { keepAliveMs });
    const { socket, text } = await openConnection(edge);
    socket.write(REQUEST);
    await until(() => /keep-alive: (\S+)/i.exec(text())?.[1] === header);
    expect(socket.destroyed).toBe(false);
    socket.destroy();
  });

  test('is closed after the time that is set', async () => {
    // Shorter than the default of Node, 5 s, and of the API.
    await restart({ keepAliveMs: 200 });
    const { socket } = await openConnection(edge);
    socket.write(REQUEST);
    await once(socket, 'end');
  });

  test('has its setting in seconds', () => {
    const { KEEP_ALIVE_SECONDS } = environment.shape;
    expect(KEEP_ALIVE_SECONDS.parse(undefined)).toBe(65);
    expect(KEEP_ALIVE_SECONDS.parse('620')).toBe(620);
    expect(KEEP_ALIVE_SECONDS.safeParse('0').success).toBe(false);
  });
});

describe('while the process stops', () => {
  /** Begins to stop with a connection that has had one response. */
  async function stopBeside() {
    const connection = await openConnection(edge);
    connection.socket.write(REQUEST);
    await once(connection.socket, 'data');
    expect(connection.text()).toMatch(/^HTTP\/1\.1 200 .*connection: keep-alive/is);
    stopped = edge.stop();
    return connection;
  }

  test('a request that arrives while the process is frozen gets a response', async () => {
    const { socket, text } = await stopBeside();
    // The bytes are in the kernel when the process continues.
    socket.write(REQUEST);
    clock.freeze(STALL_MS);
    clock.pass(100);
    await untilClosed(socket);
    expect(text().split('HTTP/1.1 200 ')).toHaveLength(3);
    expect(text()).toMatch(/connection: close.*"done":true}$/is);
  });

  test('a request that a client can send only after a freeze of the machine gets a response', async () => {
    const { socket, text } = await stopBeside();
    clock.pass(300);
    clock.freeze(STALL_MS);
    clock.pass(300);
    // A connection that was closed as idle would be closed now.
    await request('GET', '/now');
    socket.write(REQUEST);
    await untilClosed(socket);
    expect(text().split('HTTP/1.1 200 ')).toHaveLength(3);
  });

  test('the response to a request in flight closes its connection', async () => {
    const { socket, text } = await openConnection(edge);
    socket.write(REQUEST.replace('/now', '/device'));
    await untilBegun(1);
    stopped = edge.stop();
    clock.pass(STALL_MS);
    await nextTurn();
    expect(text()).toBe('');
    result.resolve();
    await untilClosed(socket);
    expect(text()).toMatch(/^HTTP\/1\.1 200 .*connection: close.*"done":true}$/is);
  });

  test('idle connections do not delay it', async () => {
    const { socket } = await stopBeside();
    clock.pass(STALL_MS);
    await Promise.all([untilClosed(socket), stopped]);
  });
});
