import { expect, test } from '@jest/globals';
import { fcm } from '../../src/channels/fcm/client.ts';
import type { Address, Attempt } from '../../src/deliver/provider.ts';
import { createAppleAddress } from '../apns/addresses.ts';
import { createPush, PUSH_ID } from '../create-push.ts';
import { useProvider } from '../provider-under-test.ts';

const TOKEN = 'a-device:APA91b';
const ADDRESS: Address = { channel: 'fcm', address: TOKEN, since: new Date() };
const OF_APNS: Address = createAppleAddress('device', 'org.example.app');
const rejected = (reason: string) => ({ kind: 'rejected', reason });
const AUTH_ERROR = { kind: 'auth-error' };
const UNAVAILABLE = { kind: 'retry', scope: 'upstream' };

const provider = useProvider((sandbox) => fcm.connect(sandbox.fcm));

async function send(...responses: object[]): Promise<Attempt> {
  if (responses.length > 0) await provider.sandbox.script('fcm', TOKEN, ...responses);
  return provider.client.prepare(createPush(), () => true)(ADDRESS);
}

/** Reads the requests for the device, without those to the token server. */
function receivedMessages() {
  return provider.sandbox.received('fcm', TOKEN);
}

test('an accepted push is sent with its payload', async () => {
  const data = '{ "n": 12345678901234567890 }';
  const push = createPush({ data, options: { collapse_key: 'news' } });
  expect(await provider.client.prepare(push, () => true)(ADDRESS)).toEqual({ kind: 'sent' });
  const [received] = await receivedMessages();
  expect(received).toMatchObject({ push: PUSH_ID, status: 200 });
  expect(received?.payload).toMatchObject({
    token: TOKEN,
    data: { payload: data, _pushyId: PUSH_ID },
    android: { priority: 'high', collapse_key: 'news', ttl: expect.stringMatching(/^3[56]\d\d/) },
  });
});

test.each([
  [
    'a payload over 4,096 bytes',
    { data: `{"t":"${'a'.repeat(4_096)}"}` },
    ADDRESS,
    'payload-too-large',
  ],
  ['an address of another channel', {}, OF_APNS, 'no-provider-address'],
  ['an empty address', {}, { ...ADDRESS, address: '' }, 'rejected-by-provider'],
] as const)('%s is rejected without a message', async (_, changes, address, reason) => {
  const attempt = await provider.client.prepare(createPush(changes), () => true)(address);
  expect(attempt).toMatchObject({ ...rejected(reason), isUnsent: true });
  const received = await provider.sandbox.received('fcm');
  expect(received.filter(({ to }) => to !== 'oauth')).toEqual([]);
});

test.each([
  ['UNREGISTERED', { kind: 'gone', flag: 'uninstalled' }],
  ['SENDER_ID_MISMATCH', rejected('wrong-credential')],
  ['INVALID_ARGUMENT', { kind: 'rejected' }],
  ['QUOTA_EXCEEDED', UNAVAILABLE],
  ['UNAVAILABLE', UNAVAILABLE],
  ['INTERNAL', UNAVAILABLE],
  ['THIRD_PARTY_AUTH_ERROR', AUTH_ERROR],
  ['UNAUTHENTICATED', AUTH_ERROR],
  ['NOT_FOUND', AUTH_ERROR],
  ['PERMISSION_DENIED', AUTH_ERROR],
])('%s is %j', async (as, attempt) => {
  expect(await send({ as })).toMatchObject(attempt);
  // A refused access token is renewed once; nothing else is sent again here.
  expect(await receivedMessages()).toHaveLength(as === 'UNAUTHENTICATED' ? 2 : 1);
});

test.each([
  [{ as: 'QUOTA_EXCEEDED', headers: { 'retry-after': '7' } }],
  [{ as: 'UNAVAILABLE', headers: { 'retry-after': '7' } }],
  [{ status: 502, headers: { 'retry-after': '7' } }],
])('Retry-After is honoured: %j', async (response) => {
  expect(await send(response)).toMatchObject({ ...UNAVAILABLE, afterMs: 7_000 });
  expect(await receivedMessages()).toHaveLength(1);
});

test.each([
  [{ status: 502, body: '<html>' }],
  [{ status: 404, body: '<html>' }],
  [{ do: 'redirect' }],
  [{ do: 'reset' }],
  [{ do: 'drop' }],
])('%j fails no recipient, and is no timeout', async (response) => {
  expect(await send(response)).toEqual({ ...UNAVAILABLE, detail: expect.any(String) });
  expect(await receivedMessages()).toHaveLength(1);
});

test('an expired access token is renewed and the message sent again', async () => {
  expect(await send()).toEqual({ kind: 'sent' });
  await provider.sandbox.injectFaults('fcm', { expireTokens: true });
  const attempts = Array.from({ length: 20 }, () =>
    provider.client.prepare(createPush(), () => true)(ADDRESS),
  );
  expect(await Promise.all(attempts)).toEqual(Array(20).fill({ kind: 'sent' }));
  const unauthorized = (await receivedMessages()).filter(({ status }) => status === 401);
  expect(unauthorized.length).toBeGreaterThan(0);
});

test('a recipient that is refused whatever the token has few tokens requested', async () => {
  await provider.sandbox.script('fcm', TOKEN, { as: 'UNAUTHENTICATED' });
  // One at the start, and one after the first refusal; with a third request neither would get an answer of FCM.
  await provider.sandbox.script('fcm', 'oauth', {}, {}, { status: 503 });
  const send = provider.client.prepare(createPush(), () => true);
  const other: Address = { channel: 'fcm', address: 'another', since: new Date() };
  for (let n = 0; n < 10; n += 1) {
    expect(await send(ADDRESS)).toMatchObject(AUTH_ERROR);
    expect(await send(other)).toEqual({ kind: 'sent' });
  }
});

test('a service account that is unknown to Google is refused', async () => {
  await provider.sandbox.injectFaults('fcm', { refuseCredential: true });
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
])('a token server’s %j is %j', async (response, attempt) => {
  await provider.sandbox.script('fcm', 'oauth', response);
  expect(await send()).toMatchObject(attempt);
  expect(await receivedMessages()).toEqual([]);
});

test('an unusable key is refused without a request', async () => {
  const unusable = fcm.connect({ ...provider.sandbox.fcm, privateKey: 'no key' });
  expect(await unusable.prepare(createPush(), () => true)(ADDRESS)).toMatchObject(AUTH_ERROR);
  await unusable.close();
  expect(await provider.sandbox.received('fcm')).toEqual([]);
});

test('another project’s key is refused', async () => {
  const otherProject = fcm.connect({ ...provider.sandbox.fcm, projectId: 'another-project' });
  expect(await otherProject.prepare(createPush(), () => true)(ADDRESS)).toMatchObject(AUTH_ERROR);
  await otherProject.close();
});
