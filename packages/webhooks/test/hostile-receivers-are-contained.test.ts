import type { LookupFunction } from 'node:net';
import { NOT_ALLOWED } from '@carillon/core/public-address';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import {
  createEndlessHandler,
  createHandler,
  createSlowHandler,
  NO_RESPONSE,
  type PushService,
  type ResponseHandler,
  startPushService,
} from '../../../services/delivery-worker/test/web-push/push-service.ts';
import { until } from '../../../test/support/until.ts';
import { parseAllowedHosts } from '../src/allowed-hosts.ts';
import { createWebhookClient, type WebhookClientOptions } from '../src/client.ts';
import { newWebhookSecret } from '../src/signature.ts';
import { startReceiver } from './receiver.ts';

/** For receivers that do not respond; others get more than a busy machine needs. */
const SHORT = { deadlineMs: 400 };
/** The only name in the certificate. */
const NAME = 'hooks.example';
const MAX_WRITTEN_BYTES = 10_000_000;

let receiver: PushService;
let port: string;
beforeAll(async () => {
  receiver = await startPushService([NAME]);
  port = receiver.host.split(':')[1] ?? '';
});
afterEach(() => {
  receiver.received.length = 0;
  receiver.respondWith(createHandler(201));
});
afterAll(() => receiver?.stop());

const resolveTo =
  (...addresses: string[]): LookupFunction =>
  (_hostname, _options, callback) =>
    callback(
      null,
      addresses.map((address) => ({ address, family: 4 })),
    );

const createClient = (options: Partial<WebhookClientOptions> = {}) =>
  createWebhookClient({
    ...{ hosts: parseAllowedHosts('127.0.0.1'), ca: receiver.ca, deadlineMs: 30_000 },
    ...{ dnsLookup: resolveTo('127.0.0.1'), ...options },
  });

async function post(address = `https://${NAME}:PORT/x`, options?: Partial<WebhookClientOptions>) {
  const client = createClient(options);
  const response = await client.post(address.replace('PORT', port), {}, '{}');
  client.close();
  return response;
}

/** Without WEBHOOK_HOSTS. */
const GUARDED = { hosts: parseAllowedHosts('') };

describe('without WEBHOOK_HOSTS', () => {
  test.each([
    'http://127.0.0.1:PORT/x',
    'http://example.org:PORT/x',
    'https://localhost:PORT/x',
    'https://127.0.0.1:PORT/x',
    'https://2130706433:PORT/x',
    'https://[::1]:PORT/x',
    'https://[::ffff:127.0.0.1]:PORT/x',
    'https://169.254.169.254/latest/meta-data',
    'https://user@example.org:PORT/x',
    'https://:password@example.org:PORT/x',
    'https://rebound.example:PORT/x',
    'https://[64:ff9b::7f00:1]:PORT/x',
    'https://[fe80::1]/x',
    'https://evil.example\\@example.org/x',
    'https://example.org./x',
    'wss://example.org:PORT/x',
    'ftp://example.org/x',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'not a url',
    '',
  ])('%p is never connected to', async (address) => {
    const before = receiver.connections();
    expect(await post(address, GUARDED)).toEqual({ error: NOT_ALLOWED });
    expect(receiver.connections()).toBe(before);
  });
});

test.each([
  ['allow a name', 'hooks.internal', 'hooks.internal', true],
  ['allow an address', '127.0.0.1', '127.0.0.1', true],
  ['allow a network, for a name in it', '127.0.0.0/8', 'any.internal', true],
  ['allow nothing else', 'hooks.internal,10.0.0.0/8', 'other.internal', false],
])('WEBHOOK_HOSTS %s', async (_what, hosts, host, isAllowed) => {
  const plain = await startReceiver(newWebhookSecret());
  const options = { hosts: parseAllowedHosts(hosts) };
  const response = await post(`http://${host}:${plain.port}/x`, options);
  expect(response).toEqual(isAllowed ? { status: 200 } : { error: NOT_ALLOWED });
  expect(plain.connections()).toBe(isAllowed ? 1 : 0);
  await plain.stop();
});

test('a wrong network is refused', () => {
  expect(() => parseAllowedHosts('hooks.internal/8')).toThrow('hooks.internal/8 is no network');
});

describe('over TLS', () => {
  test('a certificate of another authority is refused', async () => {
    const other = await startPushService([NAME]);
    expect(await post(undefined, { ca: other.ca })).toEqual({ error: expect.any(String) });
    expect(receiver.received).toEqual([]);
    await other.stop();
  });

  test('a certificate of another name is refused', async () => {
    expect(await post('https://other.example:PORT/x')).toEqual({
      error: 'ERR_TLS_CERT_ALTNAME_INVALID',
    });
    expect(receiver.received).toEqual([]);
  });
});

describe('at the moment of the connect', () => {
  test.each([
    ['a private address beside a public one', ['1.1.1.1', '127.0.0.1']],
    ['a private address', ['127.0.0.1']],
    ['an address of the cloud’s metadata', ['169.254.169.254']],
    ['no address', []],
  ])('a name with %s is not connected to', async (_what, addresses) => {
    const before = receiver.connections();
    const options = { ...GUARDED, dnsLookup: resolveTo(...addresses) };
    expect(await post(undefined, options)).toEqual({ error: NOT_ALLOWED });
    expect(receiver.connections()).toBe(before);
  });

  test.each(['ENOTFOUND', 'EAI_AGAIN'])(
    'a name that fails with %s looks like a private one',
    async (code) => {
      const dnsLookup: LookupFunction = (_hostname, _options, callback) =>
        callback(Object.assign(new Error('no such name'), { code }), []);
      const options = { ...GUARDED, dnsLookup };
      expect(await post(undefined, options)).toEqual({ error: NOT_ALLOWED });
    },
  );

  test('a name that resolves to another address the second time is checked again', async () => {
    const results = [['127.0.0.1'], ['10.0.0.1']];
    const dnsLookup: LookupFunction = (...args) => resolveTo(...(results.shift() ?? []))(...args);
    // Each request closes its connection: the next one resolves the name again.
    receiver.respondWith(createHandler(200, { connection: 'close' }));
    const client = createClient({ dnsLookup });
    const url = `https://${NAME}:${port}/x`;
    expect(await client.post(url, {}, '{}')).toEqual({ status: 200 });
    expect(await client.post(url, {}, '{}')).toEqual({ error: NOT_ALLOWED });
    client.close();
  });

  test('http is for the hosts of WEBHOOK_HOSTS only, also with a public address', async () => {
    const options = { ...GUARDED, dnsLookup: resolveTo('1.1.1.1') };
    expect(await post(`http://${NAME}:PORT/x`, options)).toEqual({ error: NOT_ALLOWED });
    expect(await post('http://1.1.1.1:PORT/x', options)).toEqual({ error: NOT_ALLOWED });
  });
});

/** Makes the receiver respond. Returns whether the connection of a response has been closed. */
function respondUntilClosed(handler: ResponseHandler): () => boolean {
  let isClosed = false;
  receiver.respondWith((request, response) => {
    response.on('close', () => {
      isClosed = true;
    });
    handler(request, response);
  });
  return () => isClosed;
}

describe('a receiver', () => {
  test.each([301, 302, 303, 307, 308])('that redirects with %i is not followed', async (status) => {
    receiver.respondWith(createHandler(status, { location: `https://${NAME}:${port}/elsewhere` }));
    expect(await post()).toEqual({ status });
    expect(receiver.received.map(({ path }) => path)).toEqual(['/x']);
  });

  test('with an endless response is cut, and its status counts', async () => {
    const { handler, written } = createEndlessHandler(200);
    const isClosed = respondUntilClosed(handler);
    expect(await post()).toEqual({ status: 200 });
    await until(isClosed);
    expect(written()).toBeLessThan(MAX_WRITTEN_BYTES);
  });

  test('with a response that never ends is cut at the deadline, and its status counts', async () => {
    const isClosed = respondUntilClosed(createSlowHandler(200));
    const client = createClient({ deadlineMs: 1_500 });
    expect(await client.post(`https://${NAME}:${port}/x`, {}, '{}')).toEqual({ status: 200 });
    // The client is open: the deadline has cut the connection.
    await until(isClosed);
    client.close();
  });

  test.each(NO_RESPONSE)('that %s causes an error', async (_what, handler, error) => {
    receiver.respondWith(handler);
    const options = error === 'ETIMEDOUT' ? SHORT : {};
    expect(await post(undefined, options)).toEqual({ error });
  });
});
