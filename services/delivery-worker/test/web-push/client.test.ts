import { createPublicKey, verify } from 'node:crypto';
import { parsePushHosts } from '@carillon/core/web-push-endpoint';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createWebPush } from '../../src/channels/web-push/client.ts';
import type { Address, ProviderClient, ProviderPush } from '../../src/deliver/provider.ts';
import { createFcmAddress, createPush } from '../pushes.ts';
import { createBrowser, createSecret } from './browser.ts';
import { createHandler, type PushService, startPushService } from './push-service.ts';

const SENT = { kind: 'sent' };
const WINDOWS = 'wns2-db5p.notify.windows.com';
/** Only the first one is a push service of Windows. */
const HOSTS = [
  WINDOWS,
  ...['notify.windows.com', 'xnotify.windows.com', 'a.notify.windows.com.example.org'],
  'fcm.googleapis.com',
];

const secret = createSecret();
const browser = createBrowser();
let service: PushService;
let client: ProviderClient;

beforeAll(async () => {
  service = await startPushService(HOSTS);
});
afterAll(() => service?.stop());
beforeEach(() => {
  service.received.length = 0;
  service.respondWith(createHandler(201));
  const hosts = parsePushHosts([service.host, ...HOSTS.map((host) => `${host}=${service.host}`)]);
  client = createWebPush({ hosts, ca: service.ca }).connect(secret);
});
afterEach(() => client.close());

const connectWith = (own: string, contact: string | undefined) =>
  createWebPush({ hosts: parsePushHosts([service.host]), ca: service.ca, contact }).connect({
    ...secret,
    contact: own,
  });
const address = (path = '/wpush/v2/abc') => browser.address(`https://${service.host}${path}`);
const send = (to: Address = address(), changes: Partial<ProviderPush> = {}) =>
  client.prepare(createPush(changes), () => true)(to);

describe('a push to a browser', () => {
  test('arrives encrypted, with the headers for the push service', async () => {
    const push = createPush({ options: { collapse_key: 'news' } });
    expect(await client.prepare(push, () => true)(address('/x?token=1'))).toEqual(SENT);
    const [request] = service.received;
    expect(request?.path).toBe('/x?token=1');
    expect(request?.headers).toMatchObject({
      host: service.host,
      ttl: '3600',
      topic: 'news',
      urgency: 'high',
      'content-encoding': 'aes128gcm',
    });
    expect(JSON.parse(browser.decrypt(request?.body ?? Buffer.of()))).toEqual({
      n: 1,
      _pushyId: push.id,
      _pushyCollapseKey: 'news',
    });
  });

  test('is signed for the origin, with one signature for many pushes (RFC 8292)', async () => {
    for (let n = 0; n < 3; n += 1) await send(address(`/${n}`));
    const headers = service.received.map(({ headers: { authorization } }) => authorization);
    expect(new Set(headers).size).toBe(1);
    const { claims, key } = readVapid(headers[0] ?? '');
    expect(key).toBe(secret.publicKey);
    expect(claims).toMatchObject({ aud: `https://${service.host}`, sub: secret.contact });
    const hoursLeft = (Number(claims.exp) - Date.now() / 1_000) / 3_600;
    expect(hoursLeft).toBeGreaterThan(6);
    expect(hoursLeft).toBeLessThan(24);
  });

  test('uses keep-alive connections', async () => {
    const connectionsBefore = service.connections();
    for (let n = 0; n < 20; n += 1) await send();
    // One to detect the protocol of the service, one that is kept.
    expect(service.connections() - connectionsBefore).toBe(2);
  });

  test('of 3,993 bytes is sent, and of one byte more is rejected', async () => {
    const payloadLengthOf = (data: string) => data.length + ',"_pushyId":""'.length + 24;
    const createData = (bytes: number) =>
      `{"a":"${'x'.repeat(bytes - payloadLengthOf('{"a":""}'))}"}`;
    expect(await send(address(), { data: createData(3_993) })).toEqual(SENT);
    expect(service.received[0]?.body.length).toBe(4_096);
    const tooLarge = { kind: 'rejected', reason: 'payload-too-large', isUnsent: true };
    expect(await send(address(), { data: createData(3_994) })).toMatchObject(tooLarge);
    expect(service.received).toHaveLength(1);
  });

  test('with unusable keys, of another channel, or at no push service, is rejected without a request', async () => {
    const broken = { ...address(), p256dh: Buffer.alloc(65, 4).toString('base64url') };
    expect(await send(broken)).toMatchObject({ reason: 'bad-provider-address', isUnsent: true });
    const elsewhere = browser.address('https://example.org/abc');
    for (const other of [createFcmAddress(address().address), elsewhere])
      expect(await send(other)).toMatchObject({ reason: 'endpoint-not-allowed', isUnsent: true });
    expect(service.received).toEqual([]);
  });

  test('arrives when 50 are sent concurrently and the client is closed meanwhile', async () => {
    const attempts = Array.from({ length: 50 }, (_, n) => send(address(`/${n}`)));
    await client.close();
    expect(await Promise.all(attempts)).toEqual(Array(50).fill(SENT));
  });

  test('that may no longer be sent is withheld, over HTTP/1.1 too', async () => {
    let maySend = true;
    const sendIfAllowed = client.prepare(createPush(), () => maySend);
    const attempt = sendIfAllowed(address());
    maySend = false;
    expect(await attempt).toEqual({ kind: 'withheld' });
    expect(await sendIfAllowed(address())).toEqual({ kind: 'withheld' });
    maySend = true;
    expect(await sendIfAllowed(address())).toEqual(SENT);
    expect(service.received).toHaveLength(1);
  });
});

describe('a push service', () => {
  test('is an upstream of its own', () => {
    expect(client.upstreamKeyOf(address())).toBe(`https://${service.host}`);
    const apple = browser.address('https://web.push.apple.com/a');
    expect(client.upstreamKeyOf(apple)).toBe('https://web.push.apple.com');
  });

  test('that refuses a fresh signature refuses the key pair', async () => {
    service.respondWith(createHandler(403, {}, 'no'));
    expect(await send()).toEqual({ kind: 'auth-error', detail: '403 no' });
    expect(service.received).toHaveLength(1);
  });

  test.each([
    ['its own', 'mailto:ops@mail.net', 'https://carillon.dev', 'mailto:ops@mail.net'],
    ["the deployment's", 'mailto:push@carillon.invalid', 'https://carillon.dev', undefined],
    [
      "the deployment's, for lack of one that is accepted",
      'mailto:a@localhost',
      'https://b.dev',
      undefined,
    ],
    ['its own, if there is no other', 'mailto:push@carillon.invalid', undefined, undefined],
  ])('gets a contact: %s', async (_, own, ofDeployment, signed = ofDeployment ?? own) => {
    const sender = connectWith(own, ofDeployment);
    expect(await sender.prepare(createPush(), () => true)(address())).toEqual(SENT);
    await sender.close();
    const { claims } = readVapid(service.received[0]?.headers.authorization ?? '');
    expect(claims.sub).toBe(signed);
  });

  test('that refuses a signature as Apple does is told apart by the contact', async () => {
    service.respondWith(createHandler(403, {}, '{"reason":"BadJwtToken"}'));
    const refusal = '403 {"reason":"BadJwtToken"}';
    const placeholder = 'mailto:push@carillon.invalid';
    const details = [
      [
        placeholder,
        undefined,
        `${refusal} likely because of the contact ${placeholder}: set WEB_PUSH_CONTACT`,
      ],
      [placeholder, 'https://carillon.dev', `${refusal}$`],
      ['mailto:ops@mail.net', undefined, `${refusal}$`],
    ] as const;
    for (const [own, ofDeployment, detail] of details) {
      const sender = connectWith(own, ofDeployment);
      const attempt = await sender.prepare(createPush(), () => true)(address());
      await sender.close();
      expect(attempt.kind).toBe('auth-error');
      expect(`${'detail' in attempt && attempt.detail}$`.startsWith(detail)).toBe(true);
    }
  });

  test('is reached at the host of its entry, under its own name', async () => {
    expect(await send(browser.address('https://fcm.googleapis.com/fcm/send/abc'))).toEqual(SENT);
    expect(service.received[0]?.headers.host).toBe('fcm.googleapis.com');
  });

  test('of Windows is told whether a push may be stored; others are not', async () => {
    const ofHost = (host: string) => browser.address(`https://${host}/w/?token=1`);
    for (const changes of [{}, { nowOnly: true }, { expiresAt: new Date() }])
      expect(await send(ofHost(WINDOWS), changes)).toEqual(SENT);
    for (const host of HOSTS.slice(1)) expect(await send(ofHost(host))).toEqual(SENT);
    expect(service.received.map(({ headers }) => headers['x-wns-cache-policy'])).toEqual([
      ...['cache', 'no-cache', 'no-cache'],
      ...HOSTS.slice(1).map(() => undefined),
    ]);
    expect(service.received.slice(1, 3).map(({ headers }) => headers.ttl)).toEqual(['0', '0']);
  });

  test('of Windows defers by 406, and its description is the detail', async () => {
    const description = { 'x-wns-error-description': 'Throttled' };
    service.respondWith(createHandler(406, { 'retry-after': '7', ...description }));
    const deferred = { kind: 'retry', scope: 'recipient', detail: '406 Throttled', afterMs: 7_000 };
    expect(await send(browser.address(`https://${WINDOWS}/w/`))).toEqual(deferred);
  });
});

function readVapid(authorization: string): { claims: Record<string, unknown>; key: string } {
  const [, jwt = '', key = ''] = /^vapid t=(.+), k=(.+)$/.exec(authorization) ?? [];
  const [head = '', body = '', signature = ''] = jwt.split('.');
  const point = Buffer.from(key, 'base64url');
  const [x, y] = [point.toString('base64url', 1, 33), point.toString('base64url', 33)];
  const publicKey = createPublicKey({ key: { kty: 'EC', crv: 'P-256', x, y }, format: 'jwk' });
  const signed = Buffer.from(`${head}.${body}`);
  const verifyKey = { key: publicKey, dsaEncoding: 'ieee-p1363' } as const;
  expect(verify('sha256', signed, verifyKey, Buffer.from(signature, 'base64url'))).toBe(true);
  return { claims: JSON.parse(Buffer.from(body, 'base64url').toString()), key };
}
