import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { newApiKey } from '../../packages/core/src/ids.ts';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { callWithoutKey } from '../support/api/keyless-calls.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import { createTestTenant } from '../support/api/tenants.ts';
import { apiOperationsDuring } from '../support/attacks/mongo-operations.ts';
import {
  closeAll,
  openUnfinishedRequest,
  parseResponse,
  type UnfinishedRequest,
} from '../support/attacks/unfinished-request.ts';
import { sendRawRequest } from '../support/end-to-end/raw-request.ts';
import { createTopicCalls } from '../support/guarantees/topic-calls.ts';
import { expectWithin } from '../support/lag.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { untilClosed } from '../support/until-closed.ts';

const MEGABYTE = 1_048_576;
const TOO_LATE_MS = 30_000;
const WRONG_KEYS_AN_HOUR = 100;
const LOOKUPS_A_SECOND = 4;
const VALID_KEY_WITHIN_MS = 2_000;

let stack: Stack;
let mongo: TestMongo;
const open: UnfinishedRequest[] = [];
/** Requests that are never whole; all of them begin before the tests, so that half a minute is waited for only once. */
const late: (UnfinishedRequest & { response: ReturnType<typeof untilLateResponse> })[] = [];
let headless: UnfinishedRequest;
let headlessResponse: ReturnType<typeof untilResponse>;
beforeAll(async () => {
  stack = await startStack(ONLY_API);
  mongo = await openMongo(stack.dev);
  await beginLateRequests();
});
afterEach(() => closeAll(open.splice(0)));
afterAll(async () => {
  closeAll([...late, headless]);
  await mongo?.close();
  await stack?.stop();
});

const { inParallel } = createTopicCalls(() => stack);
const path = () => `/push?api_key=${stack.dev.apiKey}`;
const getTopics = (key: string) => callWithoutKey(stack.dev.api, `/topics?api_key=${key}`);

async function openRequest(to: string, sizes: Parameters<typeof openUnfinishedRequest>[2]) {
  const request = await openUnfinishedRequest(stack.dev.api, to, sizes);
  open.push(request);
  return request;
}

function untilResponse(text: () => string) {
  const response = until(() => parseResponse(text()));
  // Its own test reports its failure.
  response.catch(() => undefined);
  return response;
}

/** Waits for the response to a late request. Returns it with the time that it took. */
function untilLateResponse({ text }: UnfinishedRequest) {
  const sentAt = performance.now();
  return untilResponse(text).then((response) => {
    return { response, tookMs: performance.now() - sentAt };
  });
}

async function beginLateRequests(): Promise<void> {
  for (const [to, contentLength, sent] of [
    ['/register', 100, 0],
    ['/register', 100, 99],
    [path(), 8 * MEGABYTE, MEGABYTE],
  ] as const) {
    const request = await openUnfinishedRequest(stack.dev.api, to, { contentLength, sent });
    late.push({ ...request, response: untilLateResponse(request) });
  }
  const whole = { contentLength: 100, sent: 100 };
  headless = await openUnfinishedRequest(stack.dev.api, '/register', whole);
  await until(() => parseResponse(headless.text()));
  headless.socket.write('POST /register HTTP/1.1\r\nHost:');
  headlessResponse = untilResponse(() => headless.text().split(/(?=HTTP\/1\.1)/)[1] ?? '');
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

  test.each([
    ['though its sender reads only once it has written all', 40 * MEGABYTE, 40 * MEGABYTE, true],
    ['before it is sent, and its connection ends', 400 * MEGABYTE, 10, false],
    ['of any length, and the next request is served', 2_000 * MEGABYTE, 200 * MEGABYTE, false],
  ])('gets its response %s', async (_when, contentLength, sent, isReadingLater) => {
    const request = await openRequest(path(), { contentLength, sent, isReadingLater });
    const response = await until(() => parseResponse(request.text()));
    expect(response.status).toBe(413);
    if (isReadingLater) return expect(request.failed()).toBe(false);
    expect((await getTopics(stack.dev.apiKey)).status).toBe(200);
    expect(request.text()).toMatch(/\r\nconnection: close\r\n/i);
    await untilClosed(request.socket);
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
  });

  test('whose headers never arrived gets 408 too', async () => {
    expectApiError(await headlessResponse, 'REQUEST_TIMEOUT');
    await untilClosed(headless.socket);
  });
});

describe('wrong keys above the limit of an address', () => {
  beforeAll(() => inParallel(WRONG_KEYS_AN_HOUR + 1, 20, () => getTopics(newApiKey())));

  const countLookups = (operations: readonly string[]) =>
    operations.filter((operation) => operation === 'command keys').length;

  test('share a few lookups a second', async () => {
    const startedAt = performance.now();
    const { operations } = await apiOperationsDuring(mongo, () =>
      inParallel(300, 50, async () =>
        expectApiError(await getTopics(newApiKey()), 'AUTH_LIMIT_EXCEEDED'),
      ),
    );
    const seconds = (performance.now() - startedAt) / 1_000;
    expect(countLookups(operations)).toBeLessThanOrEqual(LOOKUPS_A_SECOND * seconds + 1);
  });

  test('do not hold up a valid key behind the address, cached or not', async () => {
    const known = await createTestTenant(stack);
    expect((await getTopics(known.apiKey)).status).toBe(200);
    let isOver = false;
    const attack = inParallel(100, 100, async () => {
      while (!isOver) await getTopics(newApiKey());
    });
    for (let round = 0; round < 5; round += 1) {
      const fresh = await createTestTenant(stack);
      for (const { apiKey } of [fresh, known])
        expect((await expectWithin(VALID_KEY_WITHIN_MS, getTopics(apiKey))).status).toBe(200);
    }
    isOver = true;
    await attack;
  });

  test('evict no valid key from the cache, 11,000 of them', async () => {
    const good = await createTestTenant(stack);
    expect((await getTopics(good.apiKey)).status).toBe(200);
    const { operations } = await apiOperationsDuring(mongo, async () => {
      let left = 11_000;
      await inParallel(200, 200, async () => {
        for (; left > 0; left -= 1) await getTopics(newApiKey());
      });
      expect((await getTopics(good.apiKey)).status).toBe(200);
    });
    // An attacker that flushed the cache would cause one lookup for each request, its own and those of others.
    expect(countLookups(operations)).toBeLessThan(500);
  });
});
