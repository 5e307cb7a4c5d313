import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import apn from 'node-apn';
import { startSandbox, type UnderTest } from './sandbox-under-test.ts';

const TOKEN = 'ab'.repeat(32);

let sandbox: UnderTest;
const providers: apn.Provider[] = [];

beforeAll(async () => {
  sandbox = await startSandbox();
});

afterEach(async () => {
  await Promise.all(providers.splice(0).map((provider) => provider.shutdown()));
  await sandbox.reset();
});

afterAll(() => sandbox.stop());

/** The library as it is, but without retries of its own. */
function provider(options: object = {}): apn.Provider {
  const { ca, apns } = sandbox.credentials;
  const token = { key: apns.key, keyId: apns.keyId, teamId: apns.teamId };
  const made = new apn.Provider({
    address: apns.host,
    port: apns.port,
    ca: [Buffer.from(ca)],
    token,
    connectionRetryLimit: 0,
    ...options,
  } as apn.ProviderOptions);
  providers.push(made);
  return made;
}

function note(options: object = {}): apn.Notification {
  return new apn.Notification({
    topic: sandbox.credentials.apns.bundle,
    pushType: 'alert',
    alert: 'Hello',
    payload: { _pushyId: 'p1' },
    ...options,
  });
}

/** Sends one and gives the reason of its refusal, or `sent`. */
async function reasonOf(
  sender: apn.Provider,
  notification = note(),
  token = TOKEN,
): Promise<unknown> {
  const { sent, failed } = await sender.send(notification, token);
  if (sent.length === 1) return 'sent';
  const [first] = failed;
  return first?.response?.reason ?? first?.error?.message;
}

/** Credentials other than the provider token. */
function byCertificate(options: object): apn.Provider {
  return provider({ token: undefined, ...options });
}

describe('a notification by node-apn', () => {
  test('is taken and shown', async () => {
    expect(await reasonOf(provider(), note({ collapseId: 'c', expiry: 4_000_000_000 }))).toBe(
      'sent',
    );
    const [seen] = await sandbox.received(`channel=apns&to=${TOKEN}&push=p1`);
    expect(seen).toMatchObject({
      status: 200,
      headers: { 'apns-push-type': 'alert', 'apns-collapse-id': 'c' },
      payload: { aps: { alert: 'Hello' }, _pushyId: 'p1' },
    });
  });

  test('with a certificate, as PEM or PKCS #12', async () => {
    const { certificate, certificateKey, p12, passphrase } = sandbox.credentials.apns;
    expect(await reasonOf(byCertificate({ cert: certificate, key: certificateKey }))).toBe('sent');
    const pfx = Buffer.from(p12, 'base64');
    expect(await reasonOf(byCertificate({ pfx, passphrase }))).toBe('sent');
  });

  test('meets the real check of its device token', async () => {
    expect(await reasonOf(provider(), note(), 'ab'.repeat(8))).toBe('BadDeviceToken');
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
  ])('meets the real checks: %s for %j', async (reason, options) => {
    expect(await reasonOf(provider(), note(options))).toBe(reason);
  });

  test.each([
    ['another key id', { keyId: 'ANOTHERKEY' }],
    ['another team', { teamId: 'ANOTHERTEA' }],
  ])('is refused for %s', async (_, wrong) => {
    const { key, keyId, teamId } = sandbox.credentials.apns;
    const sender = provider({ token: { key, keyId, teamId, ...wrong } });
    expect(await reasonOf(sender)).toBe('InvalidProviderToken');
  });

  test('is refused for an expired token until there is a new one', async () => {
    const sender = provider({ connectionRetryLimit: 1 });
    expect(await reasonOf(sender)).toBe('sent');
    await sandbox.call('PUT', '/servers/apns', { expireTokens: true });
    expect(await reasonOf(sender)).toBe('sent');
    expect((await sandbox.received()).map(({ status }) => status)).toEqual([200, 403, 200]);
  });

  test('is refused when the credential is', async () => {
    await sandbox.call('PUT', '/servers/apns', { refuseCredential: true });
    expect(await reasonOf(provider())).toBe('InvalidProviderToken');
  });
});

describe('scripted answers', () => {
  test.each([
    ['Unregistered', 410],
    ['TooManyRequests', 429],
    ['Shutdown', 503],
    ['TopicDisallowed', 400],
  ])('%s is %i', async (reason, status) => {
    await sandbox.script('apns', TOKEN, [{ as: reason, timestampMs: 1_700_000_000_000 }]);
    const { failed } = await provider().send(note(), TOKEN);
    const since = status === 410 ? { timestamp: 1_700_000_000_000 } : {};
    expect(failed[0]).toMatchObject({ status, response: { reason, ...since } });
  });

  test('come one after the other, and the last one stays', async () => {
    await sandbox.script('apns', TOKEN, [{ as: 'ServiceUnavailable' }, { as: 'BadDeviceToken' }]);
    const sender = provider();
    const reasons = [await reasonOf(sender), await reasonOf(sender), await reasonOf(sender)];
    expect(reasons).toEqual(['ServiceUnavailable', 'BadDeviceToken', 'BadDeviceToken']);
  });

  test('once, and for every token without a script', async () => {
    await sandbox.script('apns', '*', [{ as: 'Shutdown' }], true);
    const sender = provider();
    expect(await reasonOf(sender, note(), 'cd'.repeat(32))).toBe('Shutdown');
    expect(await reasonOf(sender)).toBe('sent');
  });

  test('an unknown name is refused', async () => {
    await expect(sandbox.script('apns', TOKEN, [{ as: 'Nonsense' }])).rejects.toThrow('Nonsense');
  });

  test('an empty body', async () => {
    await sandbox.script('apns', TOKEN, [{ status: 503 }]);
    expect(await reasonOf(provider())).toContain('503');
  });

  test.each([
    ['refuse-stream', 'NGHTTP2_REFUSED_STREAM'],
    ['reset', 'NGHTTP2_INTERNAL_ERROR'],
    ['drop', 'stream ended unexpectedly'],
  ])('%s', async (act, words) => {
    await sandbox.script('apns', TOKEN, [{ do: act }], true);
    const sender = provider();
    expect(await reasonOf(sender)).toContain(words);
    expect(await reasonOf(sender)).toBe('sent');
  });

  test('nothing at all', async () => {
    await sandbox.script('apns', TOKEN, [{ do: 'hang' }]);
    expect(await reasonOf(provider({ requestTimeout: 200 }))).toContain('timeout');
    expect(await sandbox.received()).toMatchObject([{ status: null }]);
  });
});
