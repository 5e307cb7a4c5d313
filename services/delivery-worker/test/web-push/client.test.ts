import { createPublicKey, verify } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createWebPush } from '../../src/channels/web-push/client.ts';
import type { Address, ProviderClient } from '../../src/deliver/provider.ts';
import { createBrowser } from './browser.ts';
import { createHandler, type PushService, startPushService } from './push-service.ts';
import { createPush, createSecret } from './pushes.ts';

const secret = createSecret();
const browser = createBrowser();
let service: PushService;
let client: ProviderClient;

beforeAll(async () => {
  service = await startPushService(['fcm.googleapis.com']);
});
afterAll(() => service?.stop());
beforeEach(() => {
  service.received.length = 0;
  service.respondWith(createHandler(201));
  client = createWebPush({ hosts: [service.host], ca: service.ca }).connect(secret);
});
afterEach(() => client.close());

const address = (path = '/wpush/v2/abc') => browser.address(`https://${service.host}${path}`);

describe('a push to a browser', () => {
  test('arrives encrypted, with the headers for the push service', async () => {
    const push = createPush({ options: { collapse_key: 'news' } });
    expect(await client.prepare(push, () => true)(address('/x?token=1'))).toEqual({ kind: 'sent' });
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
      message: 'hello',
      _pushyId: push.id,
      _pushyCollapseKey: 'news',
    });
  });

  test('is signed for the origin, with one signature for many pushes (RFC 8292)', async () => {
    const send = client.prepare(createPush(), () => true);
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
    const send = client.prepare(createPush(), () => true);
    for (let n = 0; n < 20; n += 1) await send(address());
    // One to detect the protocol of the service, one that is kept.
    expect(service.connections() - connectionsBefore).toBe(2);
  });

  test('of 3,993 bytes is sent, and of one byte more is rejected', async () => {
    const payloadLengthOf = (data: string) => data.length + ',"_pushyId":""'.length + 24;
    const createData = (bytes: number) =>
      `{"a":"${'x'.repeat(bytes - payloadLengthOf('{"a":""}'))}"}`;
    const send = (bytes: number) =>
      client.prepare(createPush({ data: createData(bytes) }), () => true)(address());
    expect(await send(3_993)).toEqual({ kind: 'sent' });
    expect(service.received[0]?.body.length).toBe(4_096);
    const tooLarge = { kind: 'rejected', reason: 'payload-too-large', isUnsent: true };
    expect(await send(3_994)).toMatchObject(tooLarge);
    expect(service.received).toHaveLength(1);
  });

  test('with unusable keys is rejected without a request', async () => {
    const broken = { ...address(), p256dh: Buffer.alloc(65, 4).toString('base64url') };
    const attempt = await client.prepare(createPush(), () => true)(broken);
    expect(attempt).toMatchObject({ reason: 'bad-provider-address', isUnsent: true });
    expect(service.received).toEqual([]);
  });

  test('of another channel, or at no push service, is rejected without a request', async () => {
    const send = client.prepare(createPush(), () => true);
    const ofFcm: Address = { channel: 'fcm', address: address().address, since: new Date() };
    for (const other of [ofFcm, browser.address('https://example.org/abc')]) {
      expect(await send(other)).toMatchObject({ reason: 'endpoint-not-allowed', isUnsent: true });
    }
    expect(service.received).toEqual([]);
  });

  test('arrives when 50 are sent concurrently and the client is closed meanwhile', async () => {
    const send = client.prepare(createPush(), () => true);
    const attempts = Array.from({ length: 50 }, (_, n) => send(address(`/${n}`)));
    await client.close();
    expect(new Set((await Promise.all(attempts)).map(({ kind }) => kind))).toEqual(
      new Set(['sent']),
    );
  });
});

describe('a push service', () => {
  test('is an upstream of its own', () => {
    expect(client.upstreamKeyOf(address())).toBe(`https://${service.host}`);
    expect(client.upstreamKeyOf(browser.address('https://web.push.apple.com/a'))).toBe(
      'https://web.push.apple.com',
    );
  });

  test('that refuses a fresh signature refuses the key pair', async () => {
    service.respondWith(createHandler(403, {}, 'no'));
    const attempt = await client.prepare(createPush(), () => true)(address());
    expect(attempt).toEqual({ kind: 'auth-error', detail: '403 no' });
    expect(service.received).toHaveLength(1);
  });

  test('is reached at the host of its entry, under its own name', async () => {
    const channel = createWebPush({
      hosts: [`fcm.googleapis.com=${service.host}`],
      ca: service.ca,
    });
    const overriddenClient = channel.connect(secret);
    const overriddenAddress = browser.address('https://fcm.googleapis.com/fcm/send/abc');
    expect(await overriddenClient.prepare(createPush(), () => true)(overriddenAddress)).toEqual({
      kind: 'sent',
    });
    expect(service.received[0]?.headers.host).toBe('fcm.googleapis.com');
    await overriddenClient.close();
  });
});

function readVapid(authorization: string): { claims: Record<string, unknown>; key: string } {
  const [, jwt = '', key = ''] = /^vapid t=(.+), k=(.+)$/.exec(authorization) ?? [];
  const [head = '', body = '', signature = ''] = jwt.split('.');
  const point = Buffer.from(key, 'base64url');
  const publicKey = createPublicKey({
    key: {
      kty: 'EC',
      crv: 'P-256',
      x: point.toString('base64url', 1, 33),
      y: point.toString('base64url', 33),
    },
    format: 'jwk',
  });
  const isValid = verify(
    'sha256',
    Buffer.from(`${head}.${body}`),
    { key: publicKey, dsaEncoding: 'ieee-p1363' },
    Buffer.from(signature, 'base64url'),
  );
  expect(isValid).toBe(true);
  return { claims: JSON.parse(Buffer.from(body, 'base64url').toString()), key };
}
