import { expect, test } from '@jest/globals';
import { createApnsSecret, createFcmSecret } from '../../../../test/support/providers/sandbox.ts';
import { apns } from '../../src/channels/apns/client.ts';
import { encodeApns } from '../../src/channels/apns/payload.ts';
import { fcm } from '../../src/channels/fcm/client.ts';
import type { Attempt, ProviderPush } from '../../src/deliver/provider.ts';
import { sendTo, useProvider } from '../provider-under-test.ts';
import { createAppleAddress, createFcmAddress, createPush, PUSH_ID } from '../pushes.ts';

const TOKEN = 'a-device:APA91b';
const ADDRESS = createFcmAddress(TOKEN);
const APPLE_ADDRESS = { ...ADDRESS, isApple: true as const };
const SENT = { kind: 'sent' };
const AUTH_ERROR = { kind: 'auth-error' };
const UNAVAILABLE = { kind: 'retry', scope: 'upstream' };

const provider = useProvider((credentials) => fcm.connect(createFcmSecret(credentials)));

const send = async () => (await sendTo(provider.client, [ADDRESS]))[0] as Attempt;
/** Scripts the responses to requests for the device, or for access tokens. */
const script = (to: string, response: object) =>
  provider.sandbox.scriptPermanently('fcm', to, { ...response });
/** Reads the requests for the device, without those to the token server. */
const receivedMessages = () => provider.sandbox.receivedOver('fcm', TOKEN);

test('an accepted push is sent with its payload', async () => {
  const data = '{ "n": 12345678901234567890 }';
  const options = { collapse_key: 'news' };
  expect(await sendTo(provider.client, [ADDRESS], { data, options })).toEqual([SENT]);
  const [received] = await receivedMessages();
  expect(received).toMatchObject({ push: PUSH_ID, status: 200 });
  expect(received?.payload).toMatchObject({
    token: TOKEN,
    data: { payload: data, _pushyId: PUSH_ID },
    android: { priority: 'high', collapse_key: 'news', ttl: expect.stringMatching(/^3[56]\d\d/) },
  });
});

/** Fields that the library would remove, round, rename or take for its own. */
const ODD_DATA =
  '{"n":12345678901234567890,"e":1.0,"__proto__":{"a":1},"constructor":1,"prototype":{},"toString":2,' +
  '"in":{"__proto__":[1e3],"aps":{"contentAvailable":true}},"aps":{"alert":"theirs"},"from":"x","data":{"_pushyId":7}}';
const SHOWS_NOTHING = { title: '', body: '', sound: '', loc_args: ['a'], category: 'c' };
const NOTIFICATIONS: NonNullable<ProviderPush['options']['notification']>[] = [
  { title: 'T', body: 'B' },
  { badge: 0 },
  { category: 'c', thread_id: 't', interruption_level: 'time-sensitive' },
  { loc_key: 'k', loc_args: ['a', ''], title_loc_key: 'l', title_loc_args: [] },
  { loc_args: ['a'] },
  { sound: 'ping.aiff' },
  { sound: '' },
  { sound: { critical: true, name: 'a', volume: 0.5 } },
  { sound: { critical: false } },
  { sound: { critical: 0, volume: 1 } },
  { sound: {} },
];
test.each<ProviderPush['options']>([
  ...NOTIFICATIONS.map((notification) => ({ notification })),
  { content_available: true, notification: SHOWS_NOTHING },
  { content_available: true, mutable_content: true, notification: { badge: 0 } },
  { mutable_content: true, collapse_key: 'ключ' },
])('a push for iOS is the same as over APNs, byte for byte: %j', async (options) => {
  const changes = { data: ODD_DATA, options, expiresAt: new Date(Date.now() + 3_600_000) };
  const apnsClient = apns.connect(createApnsSecret(provider.credentials));
  expect(await sendTo(apnsClient, [createAppleAddress('one')], changes)).toEqual([SENT]);
  await apnsClient.close();
  expect(await sendTo(provider.client, [APPLE_ADDRESS], changes)).toEqual([SENT]);
  const [overApns] = await provider.sandbox.receivedOver('apns');
  const [byFcm] = await receivedMessages();
  const { 'apns-topic': _topic, ...headers } = overApns?.headers ?? {};
  expect(byFcm).toMatchObject({ push: PUSH_ID, status: 200 });
  expect(byFcm?.payload).toEqual({ token: TOKEN, apns: { headers, payload: expect.anything() } });
  const { body } = encodeApns(createPush(changes), { nowMs: Date.now() });
  expect(await provider.sandbox.readLog('apns')).toContain(`"payload":${body}}`);
  expect(await provider.sandbox.readLog('fcm')).toContain(`"payload":${body}}}}`);
});

test('a push without options is accepted for iOS too', async () => {
  expect(await sendTo(provider.client, [APPLE_ADDRESS])).toEqual([SENT]);
});

test('what an app shows of its data is in the message', async () => {
  const changes = { data: '{"title":"T","message":"M"}', hasFcmNotification: true };
  expect(await sendTo(provider.client, [ADDRESS], changes)).toEqual([SENT]);
  const [received] = await receivedMessages();
  expect(received?.payload).toMatchObject({
    data: { payload: changes.data, _pushyId: PUSH_ID },
    notification: { title: 'T', body: 'M' },
  });
});

test('what APNs answers to FCM concerns no Android device', () => {
  const { upstreamKeyOf } = provider.client;
  expect(upstreamKeyOf(APPLE_ADDRESS)).not.toBe(upstreamKeyOf(ADDRESS));
});

const OVERSIZED = { data: `{"t":"${'a'.repeat(4_096)}"}` };
test.each([
  ['a payload over 4,096 bytes', OVERSIZED, ADDRESS, 'payload-too-large'],
  ['a payload over 4,096 bytes for iOS', OVERSIZED, APPLE_ADDRESS, 'payload-too-large'],
  ['an address of another channel', {}, createAppleAddress('one'), 'no-provider-address'],
  ['an empty address', {}, createFcmAddress(''), 'rejected-by-provider'],
] as const)('%s is rejected without a message', async (_, changes, address, reason) => {
  const rejected = { kind: 'rejected', reason, isUnsent: true };
  expect(await sendTo(provider.client, [address], changes)).toMatchObject([rejected]);
  const received = await provider.sandbox.receivedOver('fcm');
  expect(received.filter(({ to }) => to !== 'oauth')).toEqual([]);
});

test.each([{ as: 'QUOTA_EXCEEDED' }, { as: 'UNAVAILABLE' }, { status: 502 }])(
  'Retry-After is honoured: %j',
  async (response) => {
    await script(TOKEN, { ...response, headers: { 'retry-after': '7' } });
    expect(await send()).toMatchObject({ ...UNAVAILABLE, afterMs: 7_000 });
    expect(await receivedMessages()).toHaveLength(1);
  },
);

test('an expired access token is renewed and the message sent again', async () => {
  expect(await send()).toEqual(SENT);
  await provider.sandbox.setFaults('fcm', { expireTokens: true });
  expect(await sendTo(provider.client, Array(20).fill(ADDRESS))).toEqual(Array(20).fill(SENT));
  const unauthorized = (await receivedMessages()).filter(({ status }) => status === 401);
  expect(unauthorized.length).toBeGreaterThan(0);
});

test('a recipient that is refused whatever the token has few tokens requested', async () => {
  await script(TOKEN, { as: 'UNAUTHENTICATED' });
  // One at the start, and one after the first refusal; with a third request neither would get an answer of FCM.
  await provider.sandbox.script('fcm', 'oauth', [{}, {}, { status: 503 }]);
  for (let n = 0; n < 10; n += 1) {
    expect(await send()).toMatchObject(AUTH_ERROR);
    expect(await sendTo(provider.client, [createFcmAddress('another')])).toEqual([SENT]);
  }
});

test('a service account that is unknown to Google is refused', async () => {
  await provider.sandbox.setFaults('fcm', { refuseCredential: true });
  expect(await send()).toMatchObject(AUTH_ERROR);
});

test.each([
  [{ status: 400, body: { error: 'invalid_grant' } }, AUTH_ERROR],
  [
    { status: 503, headers: { 'retry-after': '7' } },
    { ...UNAVAILABLE, afterMs: 7_000 },
  ],
  [{ do: 'drop' }, UNAVAILABLE],
  [{ status: 200, body: '<html>' }, UNAVAILABLE],
  [{ do: 'flood' }, UNAVAILABLE],
])(
  'a token server’s %j is %j',
  async (response, attempt) => {
    await script('oauth', response);
    expect(await send()).toMatchObject(attempt);
    expect(await receivedMessages()).toEqual([]);
  },
  30_000,
);

test('an unusable key is refused without a request, another project’s by FCM', async () => {
  for (const broken of [{ privateKey: 'no key' }, { projectId: 'another-project' }]) {
    const client = fcm.connect({ ...createFcmSecret(provider.credentials), ...broken });
    expect(await sendTo(client, [ADDRESS])).toMatchObject([AUTH_ERROR]);
    await client.close();
    const isRequested = (await provider.sandbox.receivedOver('fcm')).length > 0;
    expect(isRequested).toBe('projectId' in broken);
  }
});
