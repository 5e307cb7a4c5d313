import { createSign } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:http2';
import { Agent, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import apn from 'node-apn';
import webPush from 'web-push';
import { type SandboxUnderTest, startSandbox } from './sandbox-under-test.ts';

let sandbox: SandboxUnderTest;
let agent: Agent;
beforeAll(async () => {
  sandbox = await startSandbox();
  agent = new Agent({ ca: sandbox.credentials.ca, keepAlive: true });
});
afterEach(() => sandbox.reset());
afterAll(async () => {
  agent.destroy();
  await sandbox.stop();
});

type Headers = Record<string, string | undefined>;

/** Posts over HTTP/1.1. */
async function post(url: string, headers: Headers, body: string | Buffer | null) {
  // Undefined ones are left out.
  const given = JSON.parse(JSON.stringify(headers)) as Record<string, string>;
  const sent = request(url, { method: 'POST', agent, headers: given }).end(body ?? undefined);
  const [response] = await once(sent, 'response');
  return { status: response.statusCode as number, body: await text(response) };
}

describe('APNs, by node-apn', () => {
  const TOKEN = 'ab'.repeat(32);
  const SILENT = { alert: undefined, contentAvailable: true };
  const VOIP = { pushType: 'voip', topic: 'a.b.voip' };
  const BACKGROUND = { ...SILENT, pushType: 'background', priority: 5 };
  const providers: apn.Provider[] = [];
  afterEach(() => Promise.all(providers.splice(0).map((provider) => provider.shutdown())));

  /** The library without its retries. */
  function createProvider(options: object = {}): apn.Provider {
    const { ca, apns } = sandbox.credentials;
    const { host: address, port, key, keyId, teamId } = apns;
    const created = new apn.Provider({
      ...{ address, port, ca: [Buffer.from(ca)], token: { key, keyId, teamId } },
      ...{ connectionRetryLimit: 0, ...options },
    } as apn.ProviderOptions);
    providers.push(created);
    return created;
  }

  /** Sends one notification. @returns the error reason, or `sent` */
  async function send(provider: apn.Provider, options: object = {}, token = TOKEN) {
    const topic = sandbox.credentials.apns.bundle;
    const payload = { _pushyId: 'p1' };
    const fields = { topic, pushType: 'alert', alert: 'Hello', payload, ...options };
    const { sent, failed } = await provider.send(new apn.Notification(fields), token);
    const [first] = failed;
    return sent.length === 1 ? 'sent' : (first?.response?.reason ?? first?.error?.message);
  }

  test('accepts a certificate as PKCS #12', async () => {
    const { p12, passphrase } = sandbox.credentials.apns;
    const pfx = Buffer.from(p12, 'base64');
    expect(await send(createProvider({ token: undefined, pfx, passphrase }))).toBe('sent');
  });

  test('rejects an invalid device token', async () => {
    expect(await send(createProvider(), {}, 'ab'.repeat(8))).toBe('BadDeviceToken');
  });

  test.each<[string, object]>([
    ['MissingTopic', { topic: undefined }],
    ['BadTopic', { topic: 'a b' }],
    ['InvalidPushType', { pushType: 'shout' }],
    ['BadPriority', { priority: 7 }],
    ['BadPriority', { pushType: 'background', priority: 10 }],
    ['InvalidPushType', SILENT],
    ['InvalidPushType', { ...SILENT, alert: '', sound: '' }],
    ['InvalidPushType', { ...BACKGROUND, badge: 0 }],
    ['InvalidPushType', { ...BACKGROUND, alert: 'Hello' }],
    ['InvalidPushType', { ...BACKGROUND, contentAvailable: undefined }],
    ['sent', BACKGROUND],
    ['sent', { ...SILENT, badge: 0 }],
    ['sent', { contentAvailable: true }],
    ['sent', { alert: undefined }],
    ['BadCollapseId', { collapseId: 'c'.repeat(65) }],
    ['BadMessageId', { id: 'one' }],
    ['PayloadTooLarge', { alert: 'x'.repeat(4_096) }],
    ['sent', { ...VOIP, alert: 'x'.repeat(4_096) }],
    ['PayloadTooLarge', { ...VOIP, alert: 'x'.repeat(5_120) }],
    ['TopicDisallowed', { pushType: 'voip' }],
    ['TopicDisallowed', { ...VOIP, pushType: 'pushtotalk' }],
    ['TopicDisallowed', { ...VOIP, pushType: 'alert' }],
    ['TopicDisallowed', { ...BACKGROUND, topic: 'a.b.push-type.liveactivity' }],
    ['sent', { pushType: 'liveactivity', topic: 'a.b.push-type.liveactivity' }],
    ['sent', { pushType: 'mdm', topic: 'com.apple.mgmt.External.1' }],
  ])('responds with %s for %j', async (reason, options) => {
    expect(await send(createProvider(), options)).toBe(reason);
  });

  test.each([{ keyId: 'ANOTHERKEY' }, { teamId: 'ANOTHERTEA' }])('rejects %j', async (other) => {
    const { key, keyId, teamId } = sandbox.credentials.apns;
    const provider = createProvider({ token: { key, keyId, teamId, ...other } });
    expect(await send(provider)).toBe('InvalidProviderToken');
  });

  test('sends scripted responses in order, and repeats the last one', async () => {
    await sandbox.script('apns', TOKEN, [{ as: 'ServiceUnavailable' }, { as: 'BadDeviceToken' }]);
    const provider = createProvider();
    for (const reason of ['ServiceUnavailable', 'BadDeviceToken', 'BadDeviceToken'])
      expect(await send(provider)).toBe(reason);
    await expect(sandbox.script('apns', TOKEN, [{ as: 'Nonsense' }])).rejects.toThrow('Nonsense');
  });
});

describe('FCM', () => {
  const SCOPE = 'https://www.googleapis.com/auth/firebase.messaging';

  /** Requests an access token as a service account does (RFC 7523). */
  function getToken(claims: object = {}) {
    const account = sandbox.credentials.fcm.serviceAccount;
    const now = Math.floor(Date.now() / 1_000);
    const { client_email: iss, token_uri: aud } = account;
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const all = { iss, aud, scope: SCOPE, iat: now, exp: now + 3_600, ...claims };
    const signed = `${part({ alg: 'RS256', typ: 'JWT' })}.${part(all)}`;
    const signature = createSign('sha256').update(signed).sign(account.private_key, 'base64url');
    const grant = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
    const form = new URLSearchParams({ grant_type: grant, assertion: `${signed}.${signature}` });
    return post(aud, {}, String(form));
  }

  test.each<[string, object]>([
    ['for another account', { iss: 'a@b' }],
    ['for another audience', { aud: 'https://example.com/token' }],
    ['that is too long', { exp: Math.floor(Date.now() / 1_000) + 7_200 }],
    ['for nothing', { scope: 'https://www.googleapis.com/auth/drive' }],
  ])('grants no access token %s', async (_, claims) => {
    expect((await getToken(claims)).status).toBe(400);
  });

  /** Creates a request for a device with these fields of its message. */
  async function createSend(message: object) {
    const { access_token } = JSON.parse((await getToken()).body);
    const { host, port, serviceAccount } = sandbox.credentials.fcm;
    const origin = `https://${host}:${port}`;
    const path = `/v1/projects/${serviceAccount.project_id}/messages:send`;
    const authorization = `Bearer ${access_token}`;
    return { origin, path, authorization, text: JSON.stringify({ message }) };
  }

  const token = 'fcm-token:1';
  const LONG = 'x'.repeat(4_097);
  const ALERT = { aps: { alert: 'Hello' } };
  test.each<[string, object]>([
    ['message is too big', { data: { payload: LONG } }],
    ['message is too big', { data: { payload: LONG.slice(9) }, notification: { title: 'T' } }],
    ['payload key: from', { data: { from: 'me' } }],
    ['data.a', { data: { a: 1 } }],
    ['message.notification.title', { notification: { title: 1 } }],
    ['"sound" at \'message.notification\'', { notification: { sound: 'ping' } }],
    ['"notify" at \'message\'', { notify: {} }],
    ['"colour" at \'message.android\'', { android: { colour: 'red' } }],
    ['"header" at \'message.apns\'', { apns: { header: {}, payload: ALERT } }],
    ['apns.headers.apns-priority', { apns: { headers: { 'apns-priority': 5 }, payload: ALERT } }],
    ['message.apns.payload', { apns: { payload: 'text' } }],
    ['must contain an [aps] key', { apns: { payload: { alert: 'Hello' } } }],
    ['Value of [aps]', { apns: { payload: { aps: {} } } }],
    ['message.apns.payload.aps', { apns: { payload: { aps: 'Hello' } } }],
    ['payload of APNs is too big', { apns: { payload: { ...ALERT, text: LONG } } }],
  ])('rejects a message, over HTTP/2 too: %s', async (fault, fields) => {
    const { origin, path, authorization, text: body } = await createSend({ token, ...fields });
    const escaped = JSON.stringify(fault).slice(1, -1);
    const rejected = { status: 400, body: expect.stringContaining(escaped) };
    expect(await post(`${origin}${path}`, { authorization }, body)).toEqual(rejected);
    const client = connect(origin, { ca: sandbox.credentials.ca });
    const stream = client.request({ ':method': 'POST', ':path': path, authorization }).end(body);
    const [{ ':status': status }] = await once(stream, 'response');
    expect({ status, body: await text(stream) }).toEqual(rejected);
    client.close();
    await once(client, 'close');
  });

  test('accepts a message for iOS, and logs it unchanged with the id of its push', async () => {
    const headers = { 'apns-priority': '10' };
    const message = { token, apns: { headers, payload: { ...ALERT, _pushyId: 'p1', n: 0 } } };
    const { origin, path, authorization, text: body } = await createSend(message);
    const exact = body.replace('"n":0', '"n":12345678901234567890');
    expect((await post(`${origin}${path}`, { authorization }, exact)).status).toBe(200);
    const log = await (await fetch(`${sandbox.control}/received`)).text();
    expect(log).toContain(`"payload":${exact.slice('{"message":'.length, -1)}`);
    expect(await sandbox.received()).toMatchObject([{ to: token, push: 'p1', status: 200 }]);
  });
});

describe('a push service, by the library web-push', () => {
  const keys = webPush.generateVAPIDKeys();
  const otherKeys = webPush.generateVAPIDKeys();
  const subject = 'mailto:a@example.com';
  type Browser = Awaited<ReturnType<typeof createBrowser>>;

  async function createBrowser(body?: object) {
    const created = await sandbox.call('POST', '/web-push/subscriptions', body);
    const { endpoint, key: p256dh, auth } = created as Record<'endpoint' | 'key' | 'auth', string>;
    return { endpoint, keys: { p256dh, auth } };
  }

  /** Sends the library's request, with headers that the library would reject. @returns the status */
  async function send(
    browser: Browser,
    payload: string | undefined,
    overrides: Headers = {},
    vapid = keys,
  ): Promise<number> {
    const options = { vapidDetails: { subject, ...vapid } };
    const details = webPush.generateRequestDetails(browser, payload, options);
    const headers = { ...(details.headers as Headers), ...overrides };
    return (await post(details.endpoint, headers, details.body)).status;
  }

  function origin(): string {
    const { host, port } = sandbox.credentials.webPush;
    return `https://${host}:${port}`;
  }

  /** Creates a VAPID header for an audience and a lifetime. */
  function createVapidHeaders(audience: string, seconds: number): { Authorization: string } {
    const { publicKey, privateKey } = keys;
    const expiry = Math.floor(Date.now() / 1_000) + seconds;
    const pair = [publicKey, privateKey] as const;
    return webPush.getVapidHeaders(audience, subject, ...pair, 'aes128gcm', expiry);
  }

  test('accepts a push, decrypts it and logs it unchanged', async () => {
    const browser = await createBrowser();
    const payload = '{"n": 12345678901234567890,\n"_pushyId":"p1"}';
    expect(await send(browser, payload, { Topic: 't', Urgency: 'high' })).toBe(201);
    const log = await (await fetch(`${sandbox.control}/received`)).text();
    expect(log).toContain('"payload":{"n": 12345678901234567890, "_pushyId":"p1"}');
    const [entry] = await sandbox.received(`to=${encodeURIComponent(browser.endpoint)}`);
    expect(entry).toMatchObject({ channel: 'web-push', push: 'p1', status: 201, acked: 100 });
    expect(entry?.headers).toMatchObject({ topic: 't', urgency: 'high', ttl: '2419200' });
  });

  test('accepts a push without a payload, and one that the browser cannot decrypt', async () => {
    const browser = await createBrowser();
    expect(await send(browser, undefined)).toBe(201);
    const { keys: wrong } = await createBrowser();
    expect(await send({ ...browser, keys: wrong }, '{}')).toBe(201);
    expect(await sandbox.received()).toMatchObject([
      { payload: null, push: null, acked: 100 },
      { payload: null, acked: 101 },
    ]);
  });

  test('responds with 404 for an unknown subscription, with 410 for an ended one', async () => {
    const browser = await createBrowser();
    expect(await send({ ...browser, endpoint: `${browser.endpoint}x` }, '{}')).toBe(404);
    const token = browser.endpoint.split('/').at(-1);
    await sandbox.call('DELETE', `/web-push/subscriptions/${token}`);
    expect(await send(browser, '{}')).toBe(410);
  });

  test('responds with 403 for a VAPID key other than that of the subscription', async () => {
    const browser = await createBrowser({ applicationServerKey: otherKeys.publicKey });
    expect(await send(browser, '{}')).toBe(403);
    expect(await send(browser, '{}', {}, otherKeys)).toBe(201);
  });

  test.each<[string, number, () => Headers]>([
    ['no VAPID', 401, () => ({ Authorization: undefined })],
    ['another audience', 403, () => createVapidHeaders('https://127.0.0.1:1', 3_600)],
    ['an expiry that is past', 403, () => createVapidHeaders(origin(), -10)],
    ['a signature with another key', 403, createTamperedHeaders],
    ['a payload over 4,096 bytes', 413, () => ({})],
    ['an unknown urgency', 400, () => ({ Urgency: 'soon' })],
    ['a long topic', 400, () => ({ Topic: 'x'.repeat(33) })],
    ['a topic of other characters', 400, () => ({ Topic: 'a b' })],
    ['no TTL', 400, () => ({ TTL: undefined })],
    ['another encoding', 400, () => ({ 'Content-Encoding': 'gzip' })],
  ])('rejects %s with %i', async (_, status, headers) => {
    const payload = status === 413 ? 'x'.repeat(4_000) : '{}';
    expect(await send(await createBrowser(), payload, headers())).toBe(status);
  });

  function createTamperedHeaders(): Headers {
    const { Authorization } = createVapidHeaders(origin(), 3_600);
    return { Authorization: Authorization.replace(keys.publicKey, otherKeys.publicKey) };
  }

  test.each([
    ['mailto:push@carillon.invalid', 403],
    ['mailto:a@localhost', 403],
    ['mailto:a@carillon.dev', 201],
  ])('plays Apple when it is told so: the contact %s gets %i', async (contact, status) => {
    const browser = await createBrowser();
    await sandbox.call('PUT', '/servers/web-push', { checkContact: true });
    const [audience, { publicKey, privateKey }] = [origin(), keys];
    const details = { publicKey, privateKey, subject: contact };
    const { headers, body, endpoint } = webPush.generateRequestDetails(browser, '{}', {
      vapidDetails: details,
    });
    expect(new URL(endpoint).origin).toBe(audience);
    const response = await post(endpoint, headers as Headers, body);
    expect(response.status).toBe(status);
    if (status === 403) expect(JSON.parse(response.body)).toEqual({ reason: 'BadJwtToken' });
    await sandbox.call('DELETE', '/servers');
    expect(await send(browser, '{}')).toBe(201);
  });

  test('rejects or expires the credential when it is told so', async () => {
    const browser = await createBrowser();
    await sandbox.call('PUT', '/servers/web-push', { refuseCredential: true });
    expect(await send(browser, '{}')).toBe(403);
    await sandbox.call('DELETE', '/servers');
    const cachedHeaders = createVapidHeaders(origin(), 3_600);
    expect(await send(browser, '{}', cachedHeaders)).toBe(201);
    await sandbox.call('PUT', '/servers/web-push', { expireTokens: true });
    expect(await send(browser, '{}', cachedHeaders)).toBe(403);
    expect(await send(browser, '{}')).toBe(201);
  });
});
