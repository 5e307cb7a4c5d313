import { createLogger } from '@carillon/runtime/logger';
import { createMetrics } from '@carillon/runtime/metrics';
import { createBodyReader } from '@carillon/runtime/read-body';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { StreamedBody } from '../src/http/response.ts';
import { createRouting } from '../src/http/routing.ts';
import { serve } from '../src/http/server.ts';

let server: Awaited<ReturnType<typeof serve>>;
let stop: AbortController;
let ends: unknown[];
let chunksTaken: number;
beforeEach(async () => {
  stop = new AbortController();
  ends = [];
  chunksTaken = 0;
  const routing = createRouting({
    log: createLogger('streaming', 'fatal'),
    metrics: createMetrics(),
    authenticate: () => Promise.reject(new Error('no request of this test has a key')),
    countRequest: async () => undefined,
    readBody: createBodyReader(),
    onUnexpectedError: () => undefined,
  });
  const streamed = (chunks: () => AsyncGenerator<string>) =>
    routing.publicGet(
      async () =>
        new StreamedBody('text/plain', chunks(), {
          signal: stop.signal,
          onEnd: (error) => ends.push(error),
        }),
    );
  async function* complete() {
    yield 'one\n';
    yield 'two\n';
  }
  async function* failing() {
    yield 'one\n';
    throw new Error('MongoDB is gone');
  }
  async function* endless() {
    for (;;) {
      chunksTaken += 1;
      yield 'x'.repeat(65_536);
    }
  }
  server = await serve({ host: '127.0.0.1', port: 0 }, routing, [
    (router) =>
      router
        .get('/complete', streamed(complete))
        .get('/failing', streamed(failing))
        .get('/endless', streamed(endless)),
  ]);
});
afterEach(async () => {
  stop.abort();
  await server.stop();
});

const request = (path: string, init?: RequestInit) =>
  fetch(`http://127.0.0.1:${server.port}${path}`, init);

test('a body is sent with its type, and its end is reported once', async () => {
  const response = await request('/complete');
  expect(response.headers.get('content-type')).toBe('text/plain');
  expect(await response.text()).toBe('one\ntwo\n');
  expect(ends).toEqual([undefined]);
  expect(await (await request('/complete', { method: 'HEAD' })).text()).toBe('');
  expect(ends).toEqual([undefined, undefined]);
});

test('an error cuts the connection instead of ending the body', async () => {
  const response = await request('/failing');
  await expect(response.text()).rejects.toThrow();
  expect(ends).toEqual([new Error('MongoDB is gone')]);
});

test('a client that reads nothing stops the reading of the source, and its end is reported', async () => {
  const leaving = new AbortController();
  const response = await request('/endless', { signal: leaving.signal });
  let before = -1;
  const isAtRest = () => {
    const isSame = chunksTaken === before;
    before = chunksTaken;
    return isSame;
  };
  await until(isAtRest, { everyMs: 100, what: 'the buffers are full' });
  expect(ends).toEqual([]);
  leaving.abort();
  await expect(response.text()).rejects.toThrow();
  await until(() => ends.length === 1, { what: 'the end is reported' });
});

test('a stop cuts bodies that are being sent', async () => {
  const response = await request('/endless');
  stop.abort();
  await expect(response.text()).rejects.toThrow();
  await until(() => ends.length === 1, { what: 'the end is reported' });
});
