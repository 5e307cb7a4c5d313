import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { apns } from '../../src/channels/apns/client.ts';
import type { Attempt, ProviderClient } from '../../src/deliver/provider.ts';
import { aPush, PUSH_ID } from '../a-push.ts';
import { type ProviderSandbox, startProviderSandbox } from '../provider-sandbox.ts';
import { appleAddress } from './addresses.ts';
import { REASONS } from './reasons.ts';

let sandbox: ProviderSandbox;
let client: ProviderClient;

beforeAll(async () => {
  sandbox = await startProviderSandbox();
});
beforeEach(() => {
  client = apns.connect(sandbox.apnsToken);
});
afterEach(async () => {
  await client.close();
  await sandbox.reset();
});
afterAll(() => sandbox.stop());

async function sendTo(name: string, ...answers: object[]): Promise<Attempt> {
  const address = appleAddress(name, sandbox.bundle);
  if (answers.length > 0) await sandbox.script('apns', address.address, ...answers);
  return client.begin(aPush())(address);
}

test('a push that is taken is sent, as it is meant', async () => {
  const options = { collapseKey: 'news', notification: { title: 'T' } };
  const expiresAt = new Date(Date.now() + 60_000);
  const send = client.begin(aPush({ data: '{"n":1}', options, expiresAt }));
  const address = appleAddress('one', sandbox.bundle);
  expect(await send(address)).toEqual({ kind: 'sent' });
  expect(await sandbox.received('apns')).toMatchObject([
    {
      to: address.address,
      push: PUSH_ID,
      status: 200,
      payload: { n: 1, aps: { alert: { title: 'T' } }, _pushyId: PUSH_ID },
      headers: {
        'apns-topic': sandbox.bundle,
        'apns-push-type': 'alert',
        'apns-priority': '10',
        'apns-collapse-id': 'news',
        'apns-expiration': String(Math.floor(expiresAt.getTime() / 1_000)),
      },
    },
  ]);
});

test('a client certificate is as good as a token', async () => {
  const byCertificate = apns.connect(sandbox.apnsCertificate);
  const address = appleAddress('one', sandbox.bundle, 'development');
  expect(await byCertificate.begin(aPush())(address)).toEqual({ kind: 'sent' });
  await byCertificate.close();
});

test('a push for devices that are there now, and one in the background, are taken', async () => {
  const address = appleAddress('one', sandbox.bundle);
  await client.begin(aPush({ nowOnly: true, options: { contentAvailable: true } }))(address);
  const headers = { 'apns-expiration': '0', 'apns-push-type': 'background', 'apns-priority': '5' };
  expect(await sandbox.received('apns')).toMatchObject([{ status: 200, headers }]);
});

test('a body over 4,096 bytes isn’t even asked for', async () => {
  const send = client.begin(aPush({ data: `{"t":"${'a'.repeat(4_096)}"}` }));
  expect(await send(appleAddress('one', sandbox.bundle))).toMatchObject({
    kind: 'rejected',
    reason: 'payload-too-large',
  });
  expect(await sandbox.received('apns')).toEqual([]);
});

test.each(REASONS)('%d %s is %j', async (_, reason, attempt) => {
  expect(await sendTo(reason, { as: reason })).toMatchObject(attempt);
});

test('410 tells until when the token was good', async () => {
  const timestampMs = Date.UTC(2030, 0, 1);
  expect(await sendTo('gone', { as: 'Unregistered', timestampMs })).toEqual({
    kind: 'gone',
    flag: 'uninstalled',
    lastSeenAt: new Date(timestampMs),
  });
});

test.each([
  [{ as: 'TooManyRequests', headers: { 'retry-after': '7' } }, 'recipient'],
  [{ as: 'ServiceUnavailable', headers: { 'retry-after': '7' } }, 'line'],
  [{ status: 503, headers: { 'retry-after': '7' } }, 'line'],
])('Retry-After is obeyed: %j', async (answer, scope) => {
  expect(await sendTo('later', answer)).toMatchObject({ kind: 'retry', scope, afterMs: 7_000 });
  expect(await sandbox.received('apns')).toHaveLength(1);
});

test.each([
  [{ status: 500 }],
  [{ status: 502, body: '<html>' }],
  [{ do: 'redirect' }],
  [{ do: 'reset' }],
  [{ do: 'drop' }],
  [{ status: 400, do: 'flood' }],
])('%j is nobody’s fault', async (answer) => {
  expect(await sendTo('unlucky', answer)).toMatchObject({ kind: 'retry', scope: 'line' });
  expect(await sandbox.received('apns')).toHaveLength(1);
});

test('a refused stream may go again at once', async () => {
  const refused = { kind: 'retry', scope: 'recipient', afterMs: 0 };
  expect(await sendTo('one', { do: 'refuse-stream' })).toMatchObject(refused);
});

test('an expired provider token is renewed once', async () => {
  const address = appleAddress('one', sandbox.bundle);
  await sandbox.scriptOnce('apns', address.address, { as: 'ExpiredProviderToken' });
  expect(await client.begin(aPush())(address)).toEqual({ kind: 'sent' });
  expect(await sandbox.received('apns')).toMatchObject([{ status: 403 }, { status: 200 }]);
});

test('all that were sent with an expired provider token are sent again with one new', async () => {
  expect(await sendTo('first')).toEqual({ kind: 'sent' });
  await sandbox.conduct('apns', { expireTokens: true });
  const many = Array.from({ length: 20 }, (_, index) => sendTo(`device ${index}`));
  expect(await Promise.all(many)).toEqual(Array(20).fill({ kind: 'sent' }));
});

test('a key that APNs doesn’t know is refused', async () => {
  await sandbox.conduct('apns', { refuseCredential: true });
  expect(await sendTo('one')).toMatchObject({ kind: 'refused' });
});

test.each([
  ['apnsToken', { key: 'no key' }],
  ['apnsCertificate', { certificate: '', key: '' }],
] as const)('an unusable %s is refused without a request', async (name, broken) => {
  const unusable = apns.connect({ ...sandbox[name], ...broken });
  const attempt = await unusable.begin(aPush())(appleAddress('one', sandbox.bundle));
  expect(attempt).toMatchObject({ kind: 'refused' });
  await unusable.close();
});
