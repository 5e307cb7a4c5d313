import { NOT_ALLOWED } from '@carillon/core/public-address';
import { parsePushHosts } from '@carillon/core/web-push-endpoint';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { createWebPush } from '../../src/channels/web-push/client.ts';
import { NOT_ALLOWED as ENDPOINT_NOT_ALLOWED } from '../../src/channels/web-push/outcome.ts';
import type { Attempt } from '../../src/deliver/provider.ts';
import { createPush } from '../pushes.ts';
import { createBrowser, createSecret } from './browser.ts';
import {
  createEndlessHandler,
  createHandler,
  createSlowHandler,
  NO_RESPONSE,
  type PushService,
  startPushService,
} from './push-service.ts';

const DEADLINE_MS = 400;
const NEVER_MS = 600_000;

const secret = createSecret();
const browser = createBrowser();
let service: PushService;

beforeAll(async () => {
  service = await startPushService(['fcm.googleapis.com']);
});
afterEach(() => {
  service.received.length = 0;
});
afterAll(() => service?.stop());

/**
 * @param deadlineMs of the request: in a test whose response must be cut earlier, longer than the test may take
 * @param entries of the operator, besides the service
 */
async function send(
  endpoint = `https://${service.host}/x`,
  deadlineMs = DEADLINE_MS,
  entries: readonly string[] = [],
): Promise<Attempt> {
  const channel = createWebPush({
    hosts: parsePushHosts([service.host, ...entries]),
    ca: service.ca,
    deadlineMs,
    // Host names of vendors that resolve to the private network.
    dnsLookup: (_hostname, _options, callback) =>
      callback(null, [{ address: '127.0.0.1', family: 4 }]),
  });
  const client = channel.connect(secret);
  const attempt = await client.prepare(createPush(), () => true)(browser.address(endpoint));
  await client.close();
  return attempt;
}

describe('an endpoint that is not of a push service', () => {
  test.each([
    'http://127.0.0.1:PORT/x',
    'https://localhost:PORT/x',
    'https://[::1]:PORT/x',
    'https://user@127.0.0.1:PORT/x',
    'https://fcm.googleapis.com:PORT/x',
    'https://fcm.googleapis.com.evil.example/x',
    'not a url',
    '',
  ])('%p is never connected to', async (endpoint) => {
    const connections = service.connections();
    const attempt = await send(endpoint.replace('PORT', service.host.split(':')[1] ?? ''));
    expect(attempt).toMatchObject({ kind: 'rejected', reason: 'endpoint-not-allowed' });
    expect(service.connections()).toBe(connections);
  });

  test.each([
    ...['https://127.0.0.2:PORT/x', 'https://2130706434:PORT/x', 'https://0x7f.2:PORT/x'],
    ...[
      'https://[::1]:PORT/x',
      'https://[::ffff:127.0.0.1]:PORT/x',
      'https://[::ffff:7f00:1]:PORT/x',
    ],
    ...['https://[64:ff9b::7f00:1]:PORT/x', 'https://localhost:PORT/x', 'https://*:PORT/x'],
    ...['https://user@up.example:PORT/x', 'http://up.example:PORT/x'],
    // A name that resolves to the private network.
    ...['https://up.example:PORT/x', 'https://fcm.googleapis.com:PORT/x'],
  ])('%p is never connected to, also with the entry *', async (endpoint) => {
    const connections = service.connections();
    const address = endpoint.replace('PORT', service.host.split(':')[1] ?? '');
    expect(await send(address, NEVER_MS, ['*'])).toEqual(ENDPOINT_NOT_ALLOWED);
    expect(service.connections()).toBe(connections);
  });

  test('a vendor’s name with a private address is not connected to', async () => {
    const connections = service.connections();
    const attempt = await send('https://fcm.googleapis.com/fcm/send/x');
    expect(attempt).toEqual({ kind: 'retry', scope: 'upstream', detail: NOT_ALLOWED });
    expect(service.connections()).toBe(connections);
  });
});

describe('a hostile push service', () => {
  test.each([301, 302, 303, 307, 308])('that redirects with %i is not followed', async (status) => {
    service.respondWith(createHandler(status, { location: `https://${service.host}/elsewhere` }));
    expect(await send()).toMatchObject({ reason: 'rejected-by-provider' });
    expect(service.received.map(({ path }) => path)).toEqual(['/x']);
  });

  test('with an endless response is cut, and its status counts', async () => {
    const { handler, written } = createEndlessHandler(400);
    service.respondWith(handler);
    const attempt = await send(undefined, NEVER_MS);
    expect(attempt).toMatchObject({ kind: 'rejected', reason: 'rejected-by-provider' });
    expect(written()).toBeLessThan(10_000_000);
  });

  test('with a slow response is cut at the deadline, and its status counts', async () => {
    service.respondWith(createSlowHandler(201));
    expect(await send()).toEqual({ kind: 'sent' });
  });

  test.each(NO_RESPONSE)('that %s defers only its own pushes', async (_what, handler, detail) => {
    service.respondWith(handler);
    expect(await send()).toEqual({ kind: 'retry', scope: 'upstream', detail });
  });

  test('without a certificate of the configured authority is not trusted', async () => {
    const client = createWebPush({ hosts: parsePushHosts([service.host]) }).connect(secret);
    const attempt = await client.prepare(
      createPush(),
      () => true,
    )(browser.address(`https://${service.host}/x`));
    expect(attempt).toMatchObject({ kind: 'retry', scope: 'upstream' });
    expect(service.received).toHaveLength(0);
    await client.close();
  });
});
