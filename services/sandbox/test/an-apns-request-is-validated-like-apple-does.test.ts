import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import apn from 'node-apn';
import { type SandboxUnderTest, startSandbox } from './sandbox-under-test.ts';

const TOKEN = 'ab'.repeat(32);

let sandbox: SandboxUnderTest;
const providers: apn.Provider[] = [];

beforeAll(async () => {
  sandbox = await startSandbox();
});

afterEach(async () => {
  await Promise.all(providers.splice(0).map((provider) => provider.shutdown()));
  await sandbox.reset();
});

afterAll(() => sandbox.stop());

/** The library without its retries. */
function createProvider(options: object = {}): apn.Provider {
  const { ca, apns } = sandbox.credentials;
  const token = { key: apns.key, keyId: apns.keyId, teamId: apns.teamId };
  const created = new apn.Provider({
    address: apns.host,
    port: apns.port,
    ca: [Buffer.from(ca)],
    token,
    connectionRetryLimit: 0,
    ...options,
  } as apn.ProviderOptions);
  providers.push(created);
  return created;
}

function createNotification(options: object = {}): apn.Notification {
  return new apn.Notification({
    topic: sandbox.credentials.apns.bundle,
    pushType: 'alert',
    alert: 'Hello',
    payload: { _pushyId: 'p1' },
    ...options,
  });
}

/** Sends one notification. @returns the error reason, or `sent` */
async function sendAndGetReason(
  sender: apn.Provider,
  notification = createNotification(),
  token = TOKEN,
): Promise<unknown> {
  const { sent, failed } = await sender.send(notification, token);
  if (sent.length === 1) return 'sent';
  const [first] = failed;
  return first?.response?.reason ?? first?.error?.message;
}

/** A provider with other credentials than the provider token. */
function createCertificateProvider(options: object): apn.Provider {
  return createProvider({ token: undefined, ...options });
}

describe('a notification by node-apn', () => {
  test('is accepted and logged', async () => {
    expect(
      await sendAndGetReason(
        createProvider(),
        createNotification({ collapseId: 'c', expiry: 4_000_000_000 }),
      ),
    ).toBe('sent');
    const [entry] = await sandbox.received(`channel=apns&to=${TOKEN}&push=p1`);
    expect(entry).toMatchObject({
      status: 200,
      headers: { 'apns-push-type': 'alert', 'apns-collapse-id': 'c' },
      payload: { aps: { alert: 'Hello' }, _pushyId: 'p1' },
    });
  });

  test('is accepted with a certificate, as PEM or PKCS #12', async () => {
    const { certificate, certificateKey, p12, passphrase } = sandbox.credentials.apns;
    expect(
      await sendAndGetReason(createCertificateProvider({ cert: certificate, key: certificateKey })),
    ).toBe('sent');
    const pfx = Buffer.from(p12, 'base64');
    expect(await sendAndGetReason(createCertificateProvider({ pfx, passphrase }))).toBe('sent');
  });

  test('is rejected for an invalid device token', async () => {
    expect(await sendAndGetReason(createProvider(), createNotification(), 'ab'.repeat(8))).toBe(
      'BadDeviceToken',
    );
  });

  test.each<[string, object]>([
    ['MissingTopic', { topic: undefined }],
    ['BadTopic', { topic: 'a b' }],
    ['InvalidPushType', { pushType: 'shout' }],
    ['BadPriority', { priority: 7 }],
    ['BadPriority', { pushType: 'background', priority: 10 }],
    ['BadCollapseId', { collapseId: 'c'.repeat(65) }],
    ['BadMessageId', { id: 'one' }],
    ['PayloadTooLarge', { alert: 'x'.repeat(4_096) }],
    ['sent', { pushType: 'voip', alert: 'x'.repeat(4_096) }],
    ['PayloadTooLarge', { pushType: 'voip', alert: 'x'.repeat(5_120) }],
  ])('is rejected with %s for %j', async (reason, options) => {
    expect(await sendAndGetReason(createProvider(), createNotification(options))).toBe(reason);
  });

  test.each([
    ['another key id', { keyId: 'ANOTHERKEY' }],
    ['another team', { teamId: 'ANOTHERTEA' }],
  ])('is rejected for %s', async (_, overrides) => {
    const { key, keyId, teamId } = sandbox.credentials.apns;
    const sender = createProvider({ token: { key, keyId, teamId, ...overrides } });
    expect(await sendAndGetReason(sender)).toBe('InvalidProviderToken');
  });
});

describe('scripted responses', () => {
  test('are sent in order, and the last one repeats', async () => {
    await sandbox.script('apns', TOKEN, [{ as: 'ServiceUnavailable' }, { as: 'BadDeviceToken' }]);
    const sender = createProvider();
    const reasons = [
      await sendAndGetReason(sender),
      await sendAndGetReason(sender),
      await sendAndGetReason(sender),
    ];
    expect(reasons).toEqual(['ServiceUnavailable', 'BadDeviceToken', 'BadDeviceToken']);
  });

  test('with an unknown name are rejected', async () => {
    await expect(sandbox.script('apns', TOKEN, [{ as: 'Nonsense' }])).rejects.toThrow('Nonsense');
  });
});
