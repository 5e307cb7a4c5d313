import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLogger } from '@carillon/runtime/logger';
import { createMetrics } from '@carillon/runtime/metrics';
import { createBodyReader } from '@carillon/runtime/read-body';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { requestOnce } from '../../../test/support/guarantees/request-once.ts';
import { until } from '../../../test/support/until.ts';
import { DeadlineExceededError } from '../src/http/deadlines.ts';
import { createRouting } from '../src/http/routing.ts';
import { serve } from '../src/http/server.ts';

/** Longer than the deadline, and shorter than a deadline with one more second. */
const OVER_DEADLINE_MS = 3_200;

let server: Awaited<ReturnType<typeof serve>>;
let metrics: ReturnType<typeof createMetrics>;
let unexpectedErrors: unknown[];
/** Promise that the handlers wait for, and the number of handlers that completed. */
let handlerWork: () => Promise<unknown>;
let completedHandlers: number;

beforeEach(async () => {
  metrics = createMetrics();
  unexpectedErrors = [];
  completedHandlers = 0;
  server = await startServer(() => handlerWork(), metrics);
});
afterEach(() => server.stop());

/** Starts a server whose handlers run this function. */
function startServer(
  work: () => Promise<unknown>,
  measured = createMetrics(),
): ReturnType<typeof serve> {
  const routing = createRouting({
    log: createLogger('deadlines', 'fatal'),
    metrics: measured,
    authenticate: async () => ({
      app: { _id: 'a', account: 'b', name: 'n', createdAt: new Date() },
      account: { _id: 'b', name: 'n', plan: 'pro', createdAt: new Date() },
      apiKey: 'k',
    }),
    countRequest: async () => undefined,
    readBody: createBodyReader(),
    onUnexpectedError: (error) => void unexpectedErrors.push(error),
  });
  const handler = async () => {
    try {
      await work();
      return { done: true };
    } finally {
      completedHandlers += 1;
    }
  };
  const extraMs = ({ value }: { value: Record<string, unknown> }) => Number(value.moreMs ?? 0);
  const apiKeyRoute = routing.withApiKey({ maxBodyBytes: 1_000, extraMs }, handler);
  const publicRoute = routing.publicGet(handler);
  return serve({ host: '127.0.0.1', port: 0 }, routing, [
    (router) => router.post('/backend', apiKeyRoute).get('/device', publicRoute),
  ]);
}

const urlOf = (path: string, { port } = server) => new URL(path, `http://127.0.0.1:${port}`);
const sendRequest = (body = '{}', to = server) =>
  requestOnce({ method: 'POST', url: urlOf('/backend', to), body });

/** Returns the number of responses with a status, from the metrics. */
async function countResponses(status: number): Promise<number> {
  const line = new RegExp(
    `^carillon_http_request_seconds_count{.*status="${status}".*} (\\d+)$`,
    'm',
  );
  return Number(line.exec((await metrics.expose()).text)?.[1] ?? 0);
}

test.each(['succeeds', 'fails'])(
  'a handler that %s after the deadline gets one response, an error',
  async (ending) => {
    const handlerResult = Promise.withResolvers<void>();
    handlerWork = () => handlerResult.promise;
    const [{ status, tookMs }, publicResponse] = await Promise.all([
      sendRequest(),
      requestOnce({ method: 'GET', url: urlOf('/device') }),
    ]);
    expect([status, publicResponse.status, publicResponse.retryAfter]).toEqual([500, 503, '5']);
    expect(tookMs).toBeLessThan(3_000);
    expect(unexpectedErrors.map((error) => error instanceof DeadlineExceededError)).toEqual([
      true,
      true,
    ]);
    if (ending === 'succeeds') handlerResult.resolve();
    else handlerResult.reject(new Error('too late'));
    await until(() => completedHandlers === 2);
    handlerWork = async () => undefined;
    expect((await sendRequest()).status).toBe(200);
    expect([
      await countResponses(500),
      await countResponses(503),
      await countResponses(200),
    ]).toEqual([1, 1, 1]);
    expect(unexpectedErrors).toHaveLength(2);
  },
);

let waits: Record<'longerDeadline' | 'slowBody', Promise<void>> | undefined;

/** Starts both requests that wait beyond a deadline, each on a server of its own, at the first call. */
function begun() {
  waits ??= { longerDeadline: sendWithLongerDeadline(), slowBody: sendBodySlowly() };
  // Its own test reports its failure.
  for (const checked of Object.values(waits)) checked.catch(() => undefined);
  return waits;
}

test('a request with a longer deadline succeeds', () => begun().longerDeadline);

test('the time for receiving the body does not count', () => begun().slowBody);

async function sendWithLongerDeadline(): Promise<void> {
  const own = await startServer(() => sleep(OVER_DEADLINE_MS));
  const [usual, longer] = await Promise.all([
    sendRequest('{}', own),
    sendRequest('{"moreMs":1000}', own),
  ]);
  await own.stop();
  expect([usual.status, longer.status]).toEqual([500, 200]);
}

async function sendBodySlowly(): Promise<void> {
  const own = await startServer(async () => undefined);
  const headers = { 'content-type': 'application/json' };
  const status = await new Promise((resolve, reject) => {
    const clientRequest = request(urlOf('/backend', own), {
      method: 'POST',
      agent: false,
      headers,
    });
    clientRequest.on('error', reject).on('response', (response) => {
      response.resume().on('end', () => resolve(response.statusCode));
    });
    clientRequest.write('{');
    void sleep(OVER_DEADLINE_MS).then(() => clientRequest.end('}'));
  });
  await own.stop();
  expect(status).toBe(200);
}

test('time in which the process was frozen does not count', async () => {
  const handlerStarted = Promise.withResolvers<void>();
  handlerWork = async () => {
    handlerStarted.resolve();
    await sleep(OVER_DEADLINE_MS + 100);
  };
  const pendingResponse = sendRequest();
  await handlerStarted.promise;
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, OVER_DEADLINE_MS);
  expect((await pendingResponse).status).toBe(200);
});
