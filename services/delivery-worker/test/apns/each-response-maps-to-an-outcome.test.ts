import { generateKeyPairSync } from 'node:crypto';
import type { ProviderSecret } from '@carillon/core/channels';
import { expect, test } from '@jest/globals';
import { createApnsSecret } from '../../../../test/support/providers/sandbox.ts';
import { apns } from '../../src/channels/apns/client.ts';
import type { Attempt } from '../../src/deliver/provider.ts';
import { sendTo, useProvider } from '../provider-under-test.ts';
import { createAppleAddress, createFcmAddress, PUSH_ID } from '../pushes.ts';

const provider = useProvider((credentials) => apns.connect(createApnsSecret(credentials)));
const ADDRESS = createAppleAddress('one');
const PEM = {
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
} as const;

async function sendScripted(response: object): Promise<Attempt | undefined> {
  await provider.sandbox.scriptPermanently('apns', ADDRESS.address, { ...response });
  const [attempt] = await sendTo(provider.client, [ADDRESS]);
  expect(await provider.sandbox.receivedOver('apns')).toHaveLength(1);
  return attempt;
}

test('an accepted push is sent with its headers and payload', async () => {
  const options = { collapse_key: 'news', notification: { title: 'T' } };
  const expiresAt = new Date(Date.now() + 60_000);
  expect(await sendTo(provider.client, [ADDRESS], { options, expiresAt })).toEqual([
    { kind: 'sent' },
  ]);
  expect(await provider.sandbox.receivedOver('apns')).toMatchObject([
    {
      to: ADDRESS.address,
      push: PUSH_ID,
      status: 200,
      payload: { n: 1, aps: { alert: { title: 'T' } }, _pushyId: PUSH_ID },
      headers: {
        'apns-topic': ADDRESS.bundle,
        'apns-push-type': 'alert',
        'apns-priority': '10',
        'apns-collapse-id': 'news',
        'apns-expiration': String(Math.floor(expiresAt.getTime() / 1_000)),
      },
    },
  ]);
});

test('a client certificate is accepted like a token', async () => {
  const { certificate, certificateKey: key } = provider.credentials.apns;
  const { gateway } = createApnsSecret(provider.credentials);
  const client = apns.connect({ kind: 'apns-certificate', certificate, key, gateway });
  const addresses = [createAppleAddress('one', 'development')];
  expect(await sendTo(client, addresses)).toEqual([{ kind: 'sent' }]);
  await client.close();
});

test('a push with a time to live of 0 and a background push are accepted', async () => {
  await sendTo(provider.client, [ADDRESS], { nowOnly: true, options: { content_available: true } });
  const headers = { 'apns-expiration': '0', 'apns-push-type': 'background', 'apns-priority': '5' };
  expect(await provider.sandbox.receivedOver('apns')).toMatchObject([{ status: 200, headers }]);
});

test.each([
  [
    'a body over 4,096 bytes',
    { data: `{"t":"${'a'.repeat(4_096)}"}` },
    ADDRESS,
    'payload-too-large',
  ],
  ['an address of another channel', {}, createFcmAddress('one'), 'no-provider-address'],
] as const)('%s is rejected without a request', async (_, changes, address, reason) => {
  const rejected = { kind: 'rejected', reason, isUnsent: true };
  expect(await sendTo(provider.client, [address], changes)).toMatchObject([rejected]);
  expect(await provider.sandbox.receivedOver('apns')).toEqual([]);
});

test('410 has the time until which the token was valid', async () => {
  const timestampMs = Date.UTC(2030, 0, 1);
  expect(await sendScripted({ as: 'Unregistered', timestampMs })).toEqual({
    kind: 'gone',
    detail: '410 Unregistered',
    flag: 'uninstalled',
    lastSeenAt: new Date(timestampMs),
  });
});

test.each([
  [{ as: 'TooManyRequests' }, 'recipient'],
  [{ as: 'TooManyProviderTokenUpdates' }, 'upstream'],
  [{ as: 'ServiceUnavailable' }, 'upstream'],
  [{ status: 503 }, 'upstream'],
])('Retry-After is honoured: %j', async (response, scope) => {
  const headers = { 'retry-after': '7' };
  const retry = { kind: 'retry', scope, afterMs: 7_000 };
  expect(await sendScripted({ ...response, headers })).toMatchObject(retry);
});

test('a key that is unknown to APNs is refused', async () => {
  await provider.sandbox.setFaults('apns', { refuseCredential: true });
  expect(await sendTo(provider.client, [ADDRESS])).toMatchObject([{ kind: 'auth-error' }]);
});

test.each([
  ['key', { key: 'no key' }],
  // APNs verifies signatures of P-256 only.
  ['curve', { key: generateKeyPairSync('ec', { ...PEM, namedCurve: 'P-384' }).privateKey }],
  ['certificate', { kind: 'apns-certificate' as const, certificate: '', key: '' }],
])('an unusable %s is refused without a request', async (_, broken) => {
  const secret = { ...createApnsSecret(provider.credentials), ...broken } as ProviderSecret;
  const unusable = apns.connect(secret);
  expect(await sendTo(unusable, [ADDRESS])).toMatchObject([{ kind: 'auth-error' }]);
  expect(await provider.sandbox.receivedOver('apns')).toEqual([]);
  await unusable.close();
});
