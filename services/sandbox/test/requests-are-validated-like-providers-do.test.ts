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
    expect(await sandbox.received()).toMatchObject([
      { status: 400, detail: expect.stringMatching(/^BadDeviceToken: :path /) },
    ]);
  });

  test.each<[string, object, string]>([
    ['MissingTopic', { topic: undefined }, 'apns-topic'],
    ['BadTopic', { topic: 'a b' }, 'apns-topic'],
    ['InvalidPushType', { pushType: 'shout' }, 'apns-push-type'],
    ['BadPriority', { priority: 7 }, 'apns-priority'],
    ['BadPriority', { pushType: 'background', priority: 10 }, 'apns-priority'],
    ['InvalidPushType', SILENT, 'apns-push-type'],
    ['InvalidPushType', { ...SILENT, alert: '', sound: '' }, 'payload.aps'],
    ['InvalidPushType', { ...BACKGROUND, badge: 0 }, 'payload.aps'],
    ['InvalidPushType', { ...BACKGROUND, alert: 'Hello' }, 'payload.aps'],
    ['InvalidPushType', { ...BACKGROUND, contentAvailable: undefined }, 'payload.aps'],
    ['sent', BACKGROUND, ''],
    ['sent', { ...SILENT, badge: 0 }, ''],
    ['sent', { contentAvailable: true }, ''],
    ['sent', { alert: undefined }, ''],
    ['BadExpirationDate', { expiry: 1.5 }, 'apns-expiration'],
    ['BadCollapseId', { collapseId: 'c'.repeat(65) }, 'apns-collapse-id'],
    ['BadMessageId', { id: 'one' }, 'apns-id'],
    ['PayloadTooLarge', { alert: 'x'.repeat(4_096) }, 'payload'],
    ['sent', { ...VOIP, alert: 'x'.repeat(4_096) }, ''],
    ['PayloadTooLarge', { ...VOIP, alert: 'x'.repeat(5_120) }, 'payload'],
    ['TopicDisallowed', { pushType: 'voip' }, 'apns-topic'],
    ['TopicDisallowed', { ...VOIP, pushType: 'pushtotalk' }, 'apns-topic'],
    ['TopicDisallowed', { ...VOIP, pushType: 'alert' }, 'apns-topic'],
    ['TopicDisallowed', { ...BACKGROUND, topic: 'a.b.push-type.liveactivity' }, 'apns-topic'],
    ['sent', { pushType: 'liveactivity', topic: 'a.b.push-type.liveactivity' }, ''],
    ['sent', { pushType: 'mdm', topic: 'com.apple.mgmt.External.1' }, ''],
  ])('responds with %s for %j, and names the part in its log', async (reason, options, part) => {
    expect(await send(createProvider(), options)).toBe(reason);
    const [entry] = await sandbox.received();
    if (part === '') expect(entry).not.toHaveProperty('detail');
    else expect(entry?.detail).toMatch(new RegExp(`^${reason}: .*\\b${part}\\b`));
  });

  test('logs the headers that it got, and the payload', async () => {
    const headers = { ...VOIP, priority: 5, expiry: 1_900_000_000, collapseId: 'c' };
    expect(await send(createProvider(), headers)).toBe('sent');
    const [entry] = await sandbox.received();
    expect(entry).toMatchObject({
      headers: {
        'apns-topic': VOIP.topic,
        'apns-push-type': 'voip',
        'apns-priority': '5',
        'apns-expiration': '1900000000',
        'apns-collapse-id': 'c',
      },
      payload: { aps: { alert: 'Hello' }, _pushyId: 'p1' },
    });
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
    // Nothing was wrong with these requests.
    for (const entry of await sandbox.received()) expect(entry).not.toHaveProperty('detail');
    await expect(sandbox.script('apns', TOKEN, [{ as: 'Nonsense' }])).rejects.toThrow('Nonsense');
  });
});

const LONG = 'x'.repeat(4_097);
const ALERT = { aps: { alert: 'Hello' } };
const SHOWN = 'message.android.notification';
/** Creates a message with a notification of Android. */
const shown = (notification: object) => ({ android: { notification } });
/** Every field of Google's reference (AndroidNotification). */
const NOTIFICATION = {
  ...{ title: 'T', body: 'B', icon: 'i', color: '#A0b1C2', sound: 'ping', tag: 't' },
  ...{ click_action: 'OPEN', body_loc_key: 'b', body_loc_args: ['1'], title_loc_key: 't' },
  ...{ title_loc_args: [], channel_id: 'news', ticker: 'T', sticky: true, local_only: false },
  ...{ event_time: '2026-01-02T03:04:05.678Z', notification_priority: 'PRIORITY_MAX' },
  ...{ default_sound: true, default_vibrate_timings: false, default_light_settings: false },
  ...{ vibrate_timings: ['0s', '0.5s'], visibility: 'SECRET', notification_count: 0 },
  ...{ image: 'https://example.com/a.png', proxy: 'IF_PRIORITY_LOWERED' },
  light_settings: {
    ...{ color: { red: 1, green: 0.5, blue: 0 } },
    ...{ light_on_duration: '1s', light_off_duration: '3.5s' },
  },
};
const LABEL = { analytics_label: 'spring-2026_a.b~c%' };
/** What Google says of a message with these fields. */
const REJECTED_MESSAGES: [string, object][] = [
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
  ['payload key: google.a', { android: { data: { 'google.a': 'b' } } }],
  ['message.android.data.a', { android: { data: { a: 1 } } }],
  ['message is too big', { android: { data: { payload: LONG } } }],
  ['message is too big', { data: { a: LONG.slice(99) }, ...shown({ body: LONG.slice(3_900) }) }],
  [`"sounds" at '${SHOWN}'`, shown({ sounds: 'ping' })],
  [`${SHOWN}.channel_id`, shown({ channel_id: 1 })],
  [`${SHOWN}.color`, shown({ color: 'red' })],
  [`${SHOWN}.sticky`, shown({ sticky: 'yes' })],
  [`${SHOWN}.event_time`, shown({ event_time: 'today' })],
  [`${SHOWN}.body_loc_args[1]`, shown({ body_loc_args: ['a', 1] })],
  [`${SHOWN}.notification_priority`, shown({ notification_priority: 'HIGH' })],
  [`${SHOWN}.visibility`, shown({ visibility: 'public' })],
  [`${SHOWN}.proxy`, shown({ proxy: 'MAYBE' })],
  [`${SHOWN}.notification_count`, shown({ notification_count: 1.5 })],
  [`${SHOWN}.vibrate_timings[0]`, shown({ vibrate_timings: ['100ms'] })],
  [`${SHOWN}.light_settings.color`, shown({ light_settings: { light_on_duration: '1s' } })],
  ['message.fcm_options.analytics_label', { fcm_options: { analytics_label: 'a b' } }],
  ['"label" at \'message.fcm_options\'', { fcm_options: { label: 'a' } }],
  ['android.fcm_options.analytics_label', { android: { fcm_options: { analytics_label: '' } } }],
  ['message.apns.fcm_options.image', { apns: { payload: ALERT, fcm_options: { image: 1 } } }],
];

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
  test.each(REJECTED_MESSAGES)('rejects a message, over HTTP/2 too: %s', async (fault, fields) => {
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
    const logged = { status: 400, detail: expect.stringContaining(fault) };
    expect(await sandbox.received()).toMatchObject([logged, logged]);
  });

  test('accepts and logs every field of Android, and what its SDKs read', async () => {
    const message = {
      token,
      data: { a: 'b' },
      android: { data: { c: 'd' }, notification: NOTIFICATION, fcm_options: LABEL },
      apns: { payload: ALERT, fcm_options: { ...LABEL, image: 'https://example.com/a.png' } },
      fcm_options: LABEL,
    };
    const { origin, path, authorization, text: body } = await createSend(message);
    expect((await post(`${origin}${path}`, { authorization }, body)).status).toBe(200);
    expect(await sandbox.received()).toMatchObject([{ status: 200, payload: message }]);
  });

  test('names what is wrong with the sender', async () => {
    const { origin, path, authorization, text: body } = await createSend({ token });
    await post(`${origin}${path}`, { authorization: 'Bearer x' }, body);
    const other = path.replace(/projects\/[^/]+/, 'projects/other');
    await post(`${origin}${other}`, { authorization }, body);
    expect(await sandbox.received()).toMatchObject([
      { status: 401, detail: expect.stringMatching(/^authorization: /) },
      { status: 404, detail: expect.stringContaining('project other') },
    ]);
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
  const OTHER_ORIGIN = 'https://127.0.0.1:1';
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

  test.each<[string, number, string, () => Headers]>([
    ['no VAPID', 401, 'authorization', () => ({ Authorization: undefined })],
    ['another audience', 403, 'authorization', () => createVapidHeaders(OTHER_ORIGIN, 3_600)],
    ['an expiry that is past', 403, 'authorization', () => createVapidHeaders(origin(), -10)],
    ['a signature with another key', 403, 'authorization', createTamperedHeaders],
    ['a payload over 4,096 bytes', 413, 'body', () => ({})],
    ['an unknown urgency', 400, 'urgency', () => ({ Urgency: 'soon' })],
    ['a long topic', 400, 'topic', () => ({ Topic: 'x'.repeat(33) })],
    ['a topic of other characters', 400, 'topic', () => ({ Topic: 'a b' })],
    ['no TTL', 400, 'ttl', () => ({ TTL: undefined })],
    ['another encoding', 400, 'content-encoding', () => ({ 'Content-Encoding': 'gzip' })],
  ])('rejects %s with %i, and names %s in its log', async (_, status, part, headers) => {
    const payload = status === 413 ? 'x'.repeat(4_000) : '{}';
    expect(await send(await createBrowser(), payload, headers())).toBe(status);
    const [entry] = await sandbox.received();
    expect(entry).toMatchObject({ status, detail: expect.stringMatching(`^${part}: `) });
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
