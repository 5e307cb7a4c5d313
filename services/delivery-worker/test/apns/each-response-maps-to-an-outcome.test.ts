import { expect, test } from '@jest/globals';
import { apns } from '../../src/channels/apns/client.ts';
import type { Address, Attempt } from '../../src/deliver/provider.ts';
import { createPush, PUSH_ID } from '../create-push.ts';
import { useProvider } from '../provider-under-test.ts';
import { createAppleAddress } from './addresses.ts';
import { createKey } from './keys.ts';
import { REASONS } from './reasons.ts';

const provider = useProvider(({ apnsToken }) => apns.connect(apnsToken));

async function sendTo(name: string, ...responses: object[]): Promise<Attempt> {
  const address = createAppleAddress(name, provider.sandbox.bundle);
  if (responses.length > 0) await provider.sandbox.script('apns', address.address, ...responses);
  return provider.client.prepare(createPush(), () => true)(address);
}

test('an accepted push is sent with its headers and payload', async () => {
  const options = { collapse_key: 'news', notification: { title: 'T' } };
  const expiresAt = new Date(Date.now() + 60_000);
  const send = provider.client.prepare(
    createPush({ data: '{"n":1}', options, expiresAt }),
    () => true,
  );
  const address = createAppleAddress('one', provider.sandbox.bundle);
  expect(await send(address)).toEqual({ kind: 'sent' });
  expect(await provider.sandbox.received('apns')).toMatchObject([
    {
      to: address.address,
      push: PUSH_ID,
      status: 200,
      payload: { n: 1, aps: { alert: { title: 'T' } }, _pushyId: PUSH_ID },
      headers: {
        'apns-topic': provider.sandbox.bundle,
        'apns-push-type': 'alert',
        'apns-priority': '10',
        'apns-collapse-id': 'news',
        'apns-expiration': String(Math.floor(expiresAt.getTime() / 1_000)),
      },
    },
  ]);
});

test('a client certificate is accepted like a token', async () => {
  const byCertificate = apns.connect(provider.sandbox.apnsCertificate);
  const address = createAppleAddress('one', provider.sandbox.bundle, 'development');
  expect(await byCertificate.prepare(createPush(), () => true)(address)).toEqual({ kind: 'sent' });
  await byCertificate.close();
});

test('a push with a time to live of 0 and a background push are accepted', async () => {
  const address = createAppleAddress('one', provider.sandbox.bundle);
  await provider.client.prepare(
    createPush({ nowOnly: true, options: { content_available: true } }),
    () => true,
  )(address);
  const headers = { 'apns-expiration': '0', 'apns-push-type': 'background', 'apns-priority': '5' };
  expect(await provider.sandbox.received('apns')).toMatchObject([{ status: 200, headers }]);
});

test.each([
  ['a body over 4,096 bytes', { data: `{"t":"${'a'.repeat(4_096)}"}` }, {}, 'payload-too-large'],
  ['an address of another channel', {}, { channel: 'fcm' }, 'no-provider-address'],
] as const)('%s is rejected without a request', async (_, changes, other, reason) => {
  const address = { ...createAppleAddress('one', provider.sandbox.bundle), ...other } as Address;
  const attempt = await provider.client.prepare(createPush(changes), () => true)(address);
  expect(attempt).toMatchObject({ kind: 'rejected', reason, isUnsent: true });
  expect(await provider.sandbox.received('apns')).toEqual([]);
});

test.each(REASONS)('%d %s is %j', async (status, reason, attempt) => {
  const detail = expect.stringMatching(new RegExp(`^${status} ${reason}`));
  const lastSeenAt = status === 410 && { lastSeenAt: expect.any(Date) };
  expect(await sendTo(reason, { as: reason })).toEqual({ ...attempt, detail, ...lastSeenAt });
});

test('410 has the time until which the token was valid', async () => {
  const timestampMs = Date.UTC(2030, 0, 1);
  expect(await sendTo('gone', { as: 'Unregistered', timestampMs })).toEqual({
    kind: 'gone',
    detail: '410 Unregistered',
    flag: 'uninstalled',
    lastSeenAt: new Date(timestampMs),
  });
});

test.each([
  [{ as: 'TooManyRequests', headers: { 'retry-after': '7' } }, 'recipient'],
  [{ as: 'TooManyProviderTokenUpdates', headers: { 'retry-after': '7' } }, 'upstream'],
  [{ as: 'ServiceUnavailable', headers: { 'retry-after': '7' } }, 'upstream'],
  [{ status: 503, headers: { 'retry-after': '7' } }, 'upstream'],
])('Retry-After is honoured: %j', async (response, scope) => {
  expect(await sendTo('later', response)).toMatchObject({ kind: 'retry', scope, afterMs: 7_000 });
  expect(await provider.sandbox.received('apns')).toHaveLength(1);
});

test.each([
  [{ status: 500 }],
  [{ status: 502, body: '<html>' }],
  [{ do: 'redirect' }],
  [{ do: 'reset' }],
  [{ do: 'drop' }],
  [{ status: 400, do: 'flood' }],
])('%j fails no recipient', async (response) => {
  expect(await sendTo('unlucky', response)).toMatchObject({ kind: 'retry', scope: 'upstream' });
  expect(await provider.sandbox.received('apns')).toHaveLength(1);
});

test('a refused stream may be retried at once', async () => {
  expect(await sendTo('one', { do: 'refuse-stream' })).toEqual({
    kind: 'retry',
    scope: 'connection',
    detail: expect.stringContaining('NGHTTP2_REFUSED_STREAM'),
  });
});

test('a key that is unknown to APNs is refused', async () => {
  await provider.sandbox.injectFaults('apns', { refuseCredential: true });
  expect(await sendTo('one')).toMatchObject({ kind: 'auth-error' });
});

test.each([
  ['apnsToken', { key: 'no key' }],
  // APNs verifies signatures of P-256 only.
  ['apnsToken', { key: createKey('P-384') }],
  ['apnsCertificate', { certificate: '', key: '' }],
] as const)('an unusable %s is refused without a request', async (name, broken) => {
  const unusable = apns.connect({ ...provider.sandbox[name], ...broken });
  const attempt = await unusable.prepare(
    createPush(),
    () => true,
  )(createAppleAddress('one', provider.sandbox.bundle));
  expect(attempt).toMatchObject({ kind: 'auth-error' });
  expect(await provider.sandbox.received('apns')).toEqual([]);
  await unusable.close();
});
