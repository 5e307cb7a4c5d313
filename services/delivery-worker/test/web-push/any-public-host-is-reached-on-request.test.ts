import { once } from 'node:events';
import { createSecureServer } from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { parsePushHosts } from '@carillon/core/web-push-endpoint';
import { makeAuthority, makeServerCertificate } from '@carillon/runtime/certificates';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { until } from '../../../../test/support/until.ts';
import { createWebPush } from '../../src/channels/web-push/client.ts';
import { createQueryLookup } from '../../src/channels/web-push/connect-target.ts';
import { NOT_ALLOWED } from '../../src/channels/web-push/outcome.ts';
import type { Attempt, ProviderClient } from '../../src/deliver/provider.ts';
import { createPush } from '../pushes.ts';
import { createBrowser, createSecret } from './browser.ts';
import { type DnsServer, startDnsServer } from './dns-server.ts';
import { createHandler, type PushService, startPushService } from './push-service.ts';

const SENT = { kind: 'sent' };
/** Hosts of one server each: more than the client keeps connections to. */
const MANY = 320;
const AT_ONCE = 50;
/** Maximum connections that the client keeps to all hosts. */
const MAX_KEPT = 256;
/** Less than the time after which an idle connection is closed. */
const BEFORE_IDLE_MS = 15_000;
/** Names whose DNS server never responds. */
const DEAD_NAMES = 40;

const secret = createSecret();
const browser = createBrowser();
const trusted = getCACertificates('default');
/** Stands for a public host: the certificate is of a public authority, the address counts as public. */
let service: PushService;
let port: string;
let dns: DnsServer;
/** Addresses that a name has instead of the service's, at each connect. */
const rebound: string[][] = [];

beforeAll(async () => {
  service = await startPushService(['*.up.example']);
  port = service.host.split(':')[1] ?? '';
  setDefaultCACertificates([...trusted, service.ca]);
  dns = await startDnsServer((name) => {
    if (name.endsWith('.dead.example')) return 'silent';
    if (name.endsWith('.internal.example')) return ['10.0.0.1'];
    if (!name.endsWith('.up.example')) return undefined;
    return name.startsWith('rebound.') ? rebound[0] : ['127.0.0.1'];
  });
});
afterEach(() => {
  service.received.length = 0;
  service.respondWith(createHandler(201));
});
afterAll(async () => {
  setDefaultCACertificates(trusted);
  await dns?.stop();
  await service?.stop();
});

const connect = (...entries: string[]): ProviderClient =>
  createWebPush({
    hosts: parsePushHosts(entries),
    dnsLookup: createQueryLookup([dns.address]),
    isPublic: (address) => address === '127.0.0.1',
  }).connect(secret);
const sendOver = (client: ProviderClient, endpoint: string): Promise<Attempt> =>
  client.prepare(createPush(), () => true)(browser.address(endpoint));

async function send(endpoint: string, entries: readonly string[] = ['*']): Promise<Attempt> {
  const client = connect(...entries);
  const attempt = await sendOver(client, endpoint);
  await client.close();
  return attempt;
}

describe('a UnifiedPush server on another port', () => {
  const endpoint = () => `https://ntfy.up.example:${port}/upAbC123?up=1`;

  test('is reached with the entry *', async () => {
    expect(await send(endpoint())).toEqual(SENT);
    const [{ path, headers, body } = { path: '', headers: {}, body: Buffer.of() }] =
      service.received;
    expect(path).toBe('/upAbC123?up=1');
    expect(headers).toMatchObject({
      host: `ntfy.up.example:${port}`,
      ttl: '3600',
      'content-encoding': 'aes128gcm',
    });
    expect(JSON.parse(browser.decrypt(body))).toMatchObject({ n: 1 });
  });

  test.each([[[]], [['up.example', 'ntfy.up.example']]])('is refused with %p', async (entries) => {
    const connections = service.connections();
    expect(await send(endpoint(), entries)).toEqual(NOT_ALLOWED);
    expect(service.connections()).toBe(connections);
  });

  test('that refuses the request concerns its recipient only, not the key pair', async () => {
    for (const status of [401, 403]) {
      service.respondWith(createHandler(status, {}, 'no'));
      const detail = `${status} no`;
      const refused = { kind: 'rejected', reason: 'rejected-by-provider', detail };
      expect(await send(endpoint())).toEqual(refused);
    }
  });

  test('that redirects is not followed', async () => {
    service.respondWith(createHandler(307, { location: 'https://127.0.0.1/' }));
    expect(await send(endpoint())).toMatchObject({ reason: 'rejected-by-provider' });
    expect(service.received).toHaveLength(1);
  });

  test('without a certificate of a public authority is not trusted', async () => {
    setDefaultCACertificates(trusted);
    expect(await send(endpoint())).toMatchObject({ kind: 'retry', scope: 'upstream' });
    setDefaultCACertificates([...trusted, service.ca]);
    expect(service.received).toEqual([]);
  });
});

test('an entry beside * keeps its meaning', async () => {
  const host = `push.other.example:${port}`;
  const attempt = await send(`https://${host}/x`, ['*', `${host}=${service.host}`]);
  // The target of an entry is not resolved; its certificate is for another name.
  expect(attempt).toMatchObject({ kind: 'retry', detail: 'ERR_TLS_CERT_ALTNAME_INVALID' });
  expect(dns.asked).not.toContain('push.other.example');
});

describe('a name', () => {
  test.each([
    ['in the operator’s network', 'redis.internal.example'],
    ['that does not exist', 'absent.example'],
  ])('%s is not connected to, and both look the same', async (_what, name) => {
    const connections = service.connections();
    expect(await send(`https://${name}:${port}/x`)).toEqual(NOT_ALLOWED);
    expect(dns.asked).toContain(name);
    expect(service.connections()).toBe(connections);
  });

  test.each([
    ['a private address', ['10.0.0.1']],
    ['a public and a private address', ['127.0.0.1', '10.0.0.1']],
  ])('that has %s when it is resolved again is refused', async (_what, next) => {
    // Each request closes its connection: the next one resolves the name again.
    service.respondWith(createHandler(201, { connection: 'close' }));
    const client = connect('*');
    rebound[0] = ['127.0.0.1'];
    expect(await sendOver(client, `https://rebound.up.example:${port}/1`)).toEqual(SENT);
    rebound[0] = next;
    expect(await sendOver(client, `https://rebound.up.example:${port}/2`)).toEqual(NOT_ALLOWED);
    expect(service.received.map(({ path }) => path)).toEqual(['/1']);
    await client.close();
  });

  test('whose DNS server never responds delays no other, and is tried later', async () => {
    const client = connect('*');
    const order: string[] = [];
    const dead = Array.from({ length: DEAD_NAMES }, async (_, n) => {
      const attempt = await sendOver(client, `https://${n}.dead.example:${port}/x`);
      order.push('dead');
      return attempt;
    });
    expect(await sendOver(client, `https://ntfy.up.example:${port}/x`)).toEqual(SENT);
    order.push('sent');
    const attempts = await Promise.all(dead);
    expect(order[0]).toBe('sent');
    for (const attempt of attempts)
      expect(attempt).toMatchObject({ kind: 'retry', scope: 'upstream', detail: 'ETIMEOUT' });
    await client.close();
  });
});

describe(`of ${MANY} hosts`, () => {
  const hosts = Array.from({ length: MANY }, (_, n) => `${n}.up.example`);

  /** Sends to as many at once as a batch does. */
  async function sendToAll(client: ProviderClient, toPort: string | number): Promise<void> {
    for (let from = 0; from < MANY; from += AT_ONCE) {
      const some = hosts.slice(from, from + AT_ONCE);
      const attempts = some.map((host) => sendOver(client, `https://${host}:${toPort}/x`));
      expect(await Promise.all(attempts)).toEqual(some.map(() => SENT));
    }
  }

  test('each is reached, and few connections are kept', async () => {
    const client = connect('*');
    await sendToAll(client, port);
    await until(() => service.openConnections() <= MAX_KEPT, { timeoutMs: BEFORE_IDLE_MS });
    await client.close();
    await until(() => service.openConnections() === 0);
  });

  test('over HTTP/2 each is reached, and few sessions are kept', async () => {
    const authority = await makeAuthority(2);
    const pair = await makeServerCertificate(authority, ['*.up.example'], 1);
    setDefaultCACertificates([...trusted, authority.certificate]);
    const sockets = new Set<Socket>();
    const server = createSecureServer({ cert: pair.certificate, key: pair.key });
    server.on('connection', (socket: Socket) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    });
    server.on('stream', (stream) => {
      stream.respond({ ':status': 201 });
      stream.resume().once('end', () => stream.end());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const client = connect('*');
    await sendToAll(client, (server.address() as AddressInfo).port);
    await until(() => sockets.size <= MAX_KEPT, { timeoutMs: BEFORE_IDLE_MS });
    // A second round loses nothing to the sessions that were closed.
    await sendToAll(client, (server.address() as AddressInfo).port);
    await until(() => sockets.size <= MAX_KEPT, { timeoutMs: BEFORE_IDLE_MS });
    await client.close();
    setDefaultCACertificates([...trusted, service.ca]);
    const closed = once(server, 'close');
    server.close();
    await closed;
  });
});
