import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { callWithoutKey } from '../support/api/keyless-calls.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import {
  closeAll,
  openUnfinishedRequest,
  parseResponse,
  type UnfinishedRequest,
} from '../support/attacks/unfinished-request.ts';
import { sendRawRequest } from '../support/end-to-end/raw-request.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { untilClosed } from '../support/until-closed.ts';

const MEGABYTE = 1_048_576;
const TOO_LATE_MS = 30_000;
/** Interval of the check for late requests, and some more for a busy machine. */
const MARGIN_MS = 8_000;

let stack: Stack;
let open: UnfinishedRequest[] = [];
/** Requests that are never whole; all of them begin before the tests, so that half a minute is waited for only once. */
const late: (UnfinishedRequest & { response: ReturnType<typeof untilResponse> })[] = [];
let headless: UnfinishedRequest;
let headlessResponse: Promise<unknown>;
beforeAll(async () => {
  stack = await startStack(ONLY_API);
  await beginLateRequests();
});
afterEach(() => {
  closeAll(open);
  open = [];
});
afterAll(async () => {
  closeAll([...late, headless]);
  await stack?.stop();
});

const path = () => `/push?api_key=${stack.dev.apiKey}`;

async function openRequest(to: string, sizes: Parameters<typeof openUnfinishedRequest>[2]) {
  const unfinishedRequest = await openUnfinishedRequest(stack.dev.api, to, sizes);
  open.push(unfinishedRequest);
  return unfinishedRequest;
}

async function beginLateRequests(): Promise<void> {
  const opened = await Promise.all([
    openUnfinishedRequest(stack.dev.api, '/register', { contentLength: 100, sent: 0 }),
    openUnfinishedRequest(stack.dev.api, '/register', { contentLength: 100, sent: 99 }),
    openUnfinishedRequest(stack.dev.api, path(), { contentLength: 8 * MEGABYTE, sent: MEGABYTE }),
  ]);
  late.push(...opened.map((request) => ({ ...request, response: untilResponse(request) })));
  headless = await openUnfinishedRequest(stack.dev.api, '/register', {
    contentLength: 100,
    sent: 100,
  });
  await until(() => parseResponse(headless.text()));
  headless.socket.write('POST /register HTTP/1.1\r\nHost:');
  const second = () => headless.text().split(/(?=HTTP\/1\.1)/)[1] ?? '';
  headlessResponse = until(() => parseResponse(second()), { timeoutMs: TOO_LATE_MS });
  // Its own test reports its failure.
  headlessResponse.catch(() => undefined);
}

/** Waits for the response to a late request. Returns it with the time that it took. */
function untilResponse({ text }: UnfinishedRequest) {
  const sentAt = performance.now();
  const pollOptions = { timeoutMs: TOO_LATE_MS + MARGIN_MS };
  const response = until(() => parseResponse(text()), pollOptions).then((parsed) => {
    return { response: parsed, tookMs: performance.now() - sentAt };
  });
  response.catch(() => undefined);
  return response;
}

describe('a body beyond the limit', () => {
  test.each([
    ['with its length', {}],
    ['in chunks', { 'transfer-encoding': 'chunked' }],
  ])('of 40 MB sent %s gets 413 in JSON', async (_how, more) => {
    const headers = { 'content-type': 'application/json', ...more };
    const body = Buffer.alloc(40 * MEGABYTE, ' ');
    for (let round = 0; round < 5; round += 1) {
      const response = await sendRawRequest(stack.dev.api, { path: path(), headers, body });
      expect(response).toMatchObject({ status: 413, json: { code: 'BODY_TOO_LARGE' } });
    }
  });

  test('gets its response though its sender reads only once it has written all', async () => {
    const body = 40 * MEGABYTE;
    const unfinishedRequest = await openRequest(path(), {
      contentLength: body,
      sent: body,
      isReadingLater: true,
    });
    expect(await until(() => parseResponse(unfinishedRequest.text()))).toMatchObject({
      status: 413,
    });
    expect(unfinishedRequest.failed()).toBe(false);
  });

  test('gets its response before it is sent, and its connection ends', async () => {
    const unfinishedRequest = await openRequest(path(), {
      contentLength: 400 * MEGABYTE,
      sent: 10,
    });
    expect(await until(() => parseResponse(unfinishedRequest.text()))).toMatchObject({
      status: 413,
    });
    expect(unfinishedRequest.text()).toMatch(/\r\nconnection: close\r\n/i);
    await untilClosed(unfinishedRequest.socket);
  });

  test('of any length gets its response, and the next request is served', async () => {
    const unfinishedRequest = await openRequest(path(), {
      contentLength: 2_000 * MEGABYTE,
      sent: 200 * MEGABYTE,
    });
    expect(await until(() => parseResponse(unfinishedRequest.text()))).toMatchObject({
      status: 413,
    });
    expect(
      (await callWithoutKey(stack.dev.api, `/topics?api_key=${stack.dev.apiKey}`)).status,
    ).toBe(200);
    await untilClosed(unfinishedRequest.socket);
  });
});

describe('a request that is not whole after 30 s', () => {
  test('gets 408 in JSON, wherever it stopped', async () => {
    for (const { socket, response: pending } of late) {
      const { response, tookMs } = await pending;
      expect(tookMs).toBeGreaterThan(TOO_LATE_MS - 1_000);
      expectApiError(response, 'REQUEST_TIMEOUT');
      for (const name of ['retry-after', 'allow']) expect(response.headers.has(name)).toBe(false);
      await untilClosed(socket);
    }
  }, 90_000);

  test('whose headers never arrived gets 408 too', async () => {
    expect(await headlessResponse).toMatchObject({
      status: 408,
      json: { code: 'REQUEST_TIMEOUT' },
    });
    await untilClosed(headless.socket);
  });
});
