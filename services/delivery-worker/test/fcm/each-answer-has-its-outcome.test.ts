import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { fcm } from '../../src/channels/fcm/client.ts';
import type { Address, Attempt, ProviderClient } from '../../src/deliver/provider.ts';
import { aPush, PUSH_ID } from '../a-push.ts';
import { type ProviderSandbox, startProviderSandbox } from '../provider-sandbox.ts';

const TOKEN = 'a-device:APA91b';
const ADDRESS: Address = { channel: 'fcm', address: TOKEN, since: new Date() };
const rejected = (reason: string) => ({ kind: 'rejected', reason });
const REFUSED = { kind: 'refused' };
const UNWELL = { kind: 'retry', scope: 'line' };

let sandbox: ProviderSandbox;
let client: ProviderClient;

beforeAll(async () => {
  sandbox = await startProviderSandbox();
});
beforeEach(() => {
  client = fcm.connect(sandbox.fcm);
});
afterEach(async () => {
  await client.close();
  await sandbox.reset();
});
afterAll(() => sandbox.stop());

async function send(...answers: object[]): Promise<Attempt> {
  if (answers.length > 0) await sandbox.script('fcm', TOKEN, ...answers);
  return client.begin(aPush())(ADDRESS);
}

/** What came for the device; the token server's requests are others. */
function messages() {
  return sandbox.received('fcm', TOKEN);
}

test('a push that is taken is sent, as it is meant', async () => {
  const data = '{ "n": 12345678901234567890 }';
  const push = aPush({ data, options: { collapseKey: 'news' } });
  expect(await client.begin(push)(ADDRESS)).toEqual({ kind: 'sent' });
  const [received] = await messages();
  expect(received).toMatchObject({ push: PUSH_ID, status: 200 });
  expect(received?.payload).toMatchObject({
    token: TOKEN,
    data: { payload: data, _pushyId: PUSH_ID },
    android: { priority: 'high', collapse_key: 'news', ttl: expect.stringMatching(/^3[56]\d\d/) },
  });
});

test('a payload over 4,096 bytes isn’t even asked for', async () => {
  const push = aPush({ data: `{"t":"${'a'.repeat(4_096)}"}` });
  expect(await client.begin(push)(ADDRESS)).toMatchObject(rejected('payload-too-large'));
  expect(await sandbox.received('fcm')).toEqual([]);
});

test.each([
  ['UNREGISTERED', { kind: 'gone', flag: 'uninstalled' }],
  ['SENDER_ID_MISMATCH', rejected('wrong-credential')],
  ['INVALID_ARGUMENT', { kind: 'rejected' }],
  ['QUOTA_EXCEEDED', UNWELL],
  ['UNAVAILABLE', UNWELL],
  ['INTERNAL', UNWELL],
  ['THIRD_PARTY_AUTH_ERROR', REFUSED],
  ['UNAUTHENTICATED', REFUSED],
  ['NOT_FOUND', REFUSED],
  ['PERMISSION_DENIED', REFUSED],
])('%s is %j', async (as, attempt) => {
  expect(await send({ as })).toMatchObject(attempt);
  // A refused access token is renewed once; nothing else is sent again here.
  expect(await messages()).toHaveLength(as === 'UNAUTHENTICATED' ? 2 : 1);
});

test.each([
  [{ as: 'QUOTA_EXCEEDED', headers: { 'retry-after': '7' } }],
  [{ as: 'UNAVAILABLE', headers: { 'retry-after': '7' } }],
  [{ status: 502, headers: { 'retry-after': '7' } }],
])('Retry-After is obeyed: %j', async (answer) => {
  expect(await send(answer)).toMatchObject({ ...UNWELL, afterMs: 7_000 });
  expect(await messages()).toHaveLength(1);
});

test.each([
  [{ status: 502, body: '<html>' }],
  [{ status: 404, body: '<html>' }],
  [{ do: 'redirect' }],
  [{ do: 'reset' }],
  [{ do: 'drop' }],
])('%j is nobody’s fault', async (answer) => {
  expect(await send(answer)).toMatchObject(UNWELL);
  expect(await messages()).toHaveLength(1);
});

test('an access token that has expired is renewed, and the message sent again', async () => {
  expect(await send()).toEqual({ kind: 'sent' });
  await sandbox.conduct('fcm', { expireTokens: true });
  const many = Array.from({ length: 20 }, () => client.begin(aPush())(ADDRESS));
  expect(await Promise.all(many)).toEqual(Array(20).fill({ kind: 'sent' }));
  const refused = (await messages()).filter(({ status }) => status === 401);
  expect(refused.length).toBeGreaterThan(0);
});

test('a service account that Google doesn’t know is refused', async () => {
  await sandbox.conduct('fcm', { refuseCredential: true });
  expect(await send()).toMatchObject(REFUSED);
});

test.each([
  [{ status: 400, body: { error: 'invalid_grant' } }, REFUSED],
  [
    { status: 503, headers: { 'retry-after': '7' } },
    { ...UNWELL, afterMs: 7_000 },
  ],
  [{ do: 'drop' }, UNWELL],
  [{ status: 200, body: '<html>' }, UNWELL],
  [{ do: 'flood' }, UNWELL],
])('where access tokens are got, %j is %j', async (answer, attempt) => {
  await sandbox.script('fcm', 'oauth', answer);
  expect(await send()).toMatchObject(attempt);
  expect(await messages()).toEqual([]);
});

test('a key that doesn’t sign is refused without a request', async () => {
  const unusable = fcm.connect({ ...sandbox.fcm, privateKey: 'no key' });
  expect(await unusable.begin(aPush())(ADDRESS)).toMatchObject(REFUSED);
  await unusable.close();
  expect(await sandbox.received('fcm')).toEqual([]);
});

test('another project’s key is refused', async () => {
  const wrong = fcm.connect({ ...sandbox.fcm, projectId: 'another-project' });
  expect(await wrong.begin(aPush())(ADDRESS)).toMatchObject(REFUSED);
  await wrong.close();
});
