import { createBodyReader } from '@carillon/runtime/read-body';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import {
  closeAll,
  openUnfinishedRequest,
  parseResponse,
  type UnfinishedRequest,
} from '../../../test/support/attacks/unfinished-request.ts';
import { until } from '../../../test/support/until.ts';
import { callerOf, type Edge, startEdge } from './edge.ts';

const KILOBYTE = 1_024;
const MEGABYTE = 1_024 * KILOBYTE;
const MAX_BODY_BYTES = 8 * MEGABYTE;
/** Above three eighths of a budget of 1 MB, and so above the share of one owner. */
const LARGE = 400 * KILOBYTE;
/** A large body, which alone is below the share of its owner. */
const MODERATE = 100 * KILOBYTE;

let server: Edge;
let open: UnfinishedRequest[];
/** Accounts of the bodies whose reading was stopped, and of those whose reading went on. */
let waiting: string[];
let resumed: string[];
beforeEach(() => {
  open = [];
  waiting = [];
  resumed = [];
});
afterEach(async () => {
  closeAll(open);
  await server.stop();
});

/** Starts a server with 1 MB for bodies; the key of a request is the name of its account. */
async function startServer(hasAddressLimits: boolean): Promise<void> {
  server = await startEdge(
    ({ withApiKey }) =>
      (router) =>
        router.post(
          '/accept',
          withApiKey({ maxBodyBytes: MAX_BODY_BYTES }, async () => ({})),
        ),
    {
      async authenticate(request) {
        const account = new URL(request.url, 'http://x').searchParams.get('api_key') ?? '';
        request.once('pause', () => {
          waiting.push(account);
          request.once('resume', () => resumed.push(account));
        });
        return callerOf(account);
      },
      readBody: createBodyReader({ budgetBytes: MEGABYTE, hasAddressLimits }),
    },
  );
}

/** Announces a body. */
async function announce(account: string, contentLength: number): Promise<UnfinishedRequest> {
  const path = `/accept?api_key=${account}`;
  const request = await openUnfinishedRequest(server.url, path, { contentLength, sent: 0 });
  open.push(request);
  return request;
}

/** Sends a body without its last byte. Returns the request, and a function that sends this byte. */
async function sendAlmostAll(account: string, bytes: number) {
  const request = await announce(account, bytes);
  request.socket.write(`{"x":"${'x'.repeat(bytes - '{"x":""}'.length)}"`);
  return { ...request, finish: () => request.socket.write('}') };
}

const untilStatus = async ({ text }: Pick<UnfinishedRequest, 'text'>): Promise<number> =>
  (await until(() => parseResponse(text()))).status;

test('a body waits while its address holds more than its share, and a stalled one is aborted for it', async () => {
  await startServer(true);
  const stalled = await sendAlmostAll('one', LARGE);
  // Only one body may go on above the limit: if both waited, it would be the smaller one.
  await until(() => resumed.includes('one'), { what: 'the first body holds its memory' });
  const moderate = await sendAlmostAll('another', MODERATE);
  await until(() => waiting.includes('another'), { what: 'the second body waits' });
  expect(await untilStatus(stalled)).toBe(503);
  expect(stalled.text()).toMatch(/\r\nretry-after: \d+\r\n/i);
  moderate.finish();
  expect(await untilStatus(moderate)).toBe(200);
});

test('with ADDRESS_LIMITS=off a body of another account does not wait', async () => {
  await startServer(false);
  const slow = await sendAlmostAll('one', LARGE);
  await until(() => waiting.includes('one'), { what: 'the first body holds its memory' });
  const moderate = await sendAlmostAll('another', MODERATE);
  moderate.finish();
  expect(await untilStatus(moderate)).toBe(200);
  expect(waiting).not.toContain('another');
  slow.finish();
  expect(await untilStatus(slow)).toBe(200);
});

test('announced bytes that have not arrived hold no memory', async () => {
  await startServer(true);
  for (let n = 0; n < 20; n += 1) await announce('one', MAX_BODY_BYTES);
  const moderate = await sendAlmostAll('one', MODERATE);
  moderate.finish();
  expect(await untilStatus(moderate)).toBe(200);
  expect(waiting).toEqual([]);
});
