import { expect, test } from '@jest/globals';
import { createFcmSecret } from '../../../../test/support/providers/sandbox.ts';
import { fcm } from '../../src/channels/fcm/client.ts';
import type { Attempt } from '../../src/deliver/provider.ts';
import { sendTo, useProvider } from '../provider-under-test.ts';
import { createAppleAddress, createFcmAddress, PUSH_ID } from '../pushes.ts';

const TOKEN = 'a-device:APA91b';
const ADDRESS = createFcmAddress(TOKEN);
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

const OVERSIZED = { data: `{"t":"${'a'.repeat(4_096)}"}` };
test.each([
  ['a payload over 4,096 bytes', OVERSIZED, ADDRESS, 'payload-too-large'],
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
