import { createLogger } from '@carillon/runtime/logger';
import { createMetrics } from '@carillon/runtime/metrics';
import { createBodyReader } from '@carillon/runtime/read-body';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  openUnfinishedRequest,
  parseResponse,
} from '../../../test/support/attacks/unfinished-request.ts';
import { until } from '../../../test/support/until.ts';
import { untilClosed } from '../../../test/support/until-closed.ts';
import { createRouting } from '../src/http/routing.ts';
import { serve } from '../src/http/server.ts';

/** Shorter than the product's 30 s, and much longer than the deadline of a handler. */
const REQUEST_TIMEOUT_MS = 8_000;

let server: Awaited<ReturnType<typeof serve>>;
const handlerRelease = Promise.withResolvers<void>();

beforeAll(async () => {
  const routing = createRouting({
    log: createLogger('late', 'fatal'),
    metrics: createMetrics(),
    authenticate: () => Promise.reject(new Error('no request of this test has a key')),
    countRequest: async () => undefined,
    readBody: createBodyReader(),
    onUnexpectedError: () => undefined,
  });
  const slowRoute = routing.publicGet(async () => {
    await handlerRelease.promise;
    return { worked: true };
  });
  server = await serve(
    { host: '127.0.0.1', port: 0 },
    routing,
    [(router) => router.post('/work', slowRoute)],
    { requestTimeoutMs: REQUEST_TIMEOUT_MS },
  );
});
afterAll(() => server.stop());

test('a request whose handler runs gets one response, although a part of it never arrives', async () => {
  const base = `http://127.0.0.1:${server.port}`;
  const { socket, text } = await openUnfinishedRequest(base, '/work', {
    contentLength: 10,
    sent: 9,
  });
  // Its deadline passes long before the timeout for a complete request.
  const response = await until(() => parseResponse(text()));
  expect(response).toMatchObject({ status: 503, json: { code: 'SERVICE_UNAVAILABLE' } });
  handlerRelease.resolve();
  // The server closes the connection at the timeout for a complete request, without a second response.
  await untilClosed(socket);
  expect(text().split('HTTP/1.1 ')).toHaveLength(2);
}, 90_000);
