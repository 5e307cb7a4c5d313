import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { createApnsSecret } from '../../../../test/support/providers/sandbox.ts';
import { apns, connectApns } from '../../src/channels/apns/client.ts';
import {
  createProviderTokens,
  type ProviderToken,
  type ProviderTokens,
} from '../../src/channels/apns/provider-token.ts';
import type { ProviderClient } from '../../src/deliver/provider.ts';
import { sendTo, useProvider } from '../provider-under-test.ts';
import { createAppleAddress } from '../pushes.ts';

const MINUTE_MS = 60_000;
const [MIN_AGE_MS, MAX_AGE_MS] = [20 * MINUTE_MS, 55 * MINUTE_MS];

describe('over the wire', () => {
  const SENT = [{ kind: 'sent' }];
  const EXPIRED = { as: 'ExpiredProviderToken' };
  const ONE = createAppleAddress('one');
  const MANY = Array.from({ length: 20 }, (_, index) => createAppleAddress(`device ${index}`));

  /** Clock, registry and tokens that requests have carried: each test has its own. */
  let clock = { ms: 0 };
  let tokens: ProviderTokens;
  let carried = new Set<ProviderToken>();

  const provider = useProvider((credentials) => {
    clock = { ms: 0 };
    carried = new Set();
    const now = () => clock.ms;
    tokens = recordCarried(createProviderTokens(now, now));
    return connectApns(createApnsSecret(credentials), tokens);
  });

  /** Records the tokens that a registry returns for requests. */
  function recordCarried({ of }: ProviderTokens): ProviderTokens {
    return {
      of(key) {
        const { current, replace } = of(key);
        const record = <T extends ProviderToken | undefined>(token: T): T => {
          if (token !== undefined) carried.add(token);
          return token;
        };
        return { current: () => record(current()), replace: (refused) => record(replace(refused)) };
      },
    };
  }

  const sendToOne = (client: ProviderClient = provider.client) => sendTo(client, [ONE]);
  const receivedStatuses = async () =>
    (await provider.sandbox.receivedOver('apns')).map(({ status }) => status);

  test('both environments and a client that is opened anew send with the same token', async () => {
    expect(await sendToOne()).toEqual(SENT);
    expect(await sendTo(provider.client, [createAppleAddress('two', 'development')])).toEqual(SENT);
    await provider.client.close();
    clock.ms = MAX_AGE_MS - 1;
    const reopened = connectApns(createApnsSecret(provider.credentials), tokens);
    expect(await sendToOne(reopened)).toEqual(SENT);
    await reopened.close();
    expect(carried.size).toBe(1);
  });

  test('clients of the channel share the tokens of the process', async () => {
    const secret = createApnsSecret(provider.credentials);
    const [one, other] = [apns.connect(secret), apns.connect(secret)];
    expect(await sendToOne(one)).toEqual(SENT);
    await provider.sandbox.setFaults('apns', { expireTokens: true });
    expect(await sendToOne(other)).toMatchObject([{ kind: 'auth-error' }]);
    await Promise.all([one.close(), other.close()]);
  });

  test.each([
    // It is replaced before a request.
    [55, MAX_AGE_MS, 0],
    // All requests with it are sent again with one new token.
    [20, MIN_AGE_MS, MANY.length],
  ])('an expired token of %i minutes is renewed once', async (_minutes, ageMs, refused) => {
    expect(await sendToOne()).toEqual(SENT);
    await provider.sandbox.setFaults('apns', { expireTokens: true });
    clock.ms = ageMs;
    expect(await sendTo(provider.client, MANY)).toEqual(MANY.flatMap(() => SENT));
    const statuses = await receivedStatuses();
    expect(statuses.filter((status) => status === 403)).toHaveLength(refused);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1 + MANY.length);
    expect(carried.size).toBe(2);
  });

  test.each([
    // A young token is kept; so is a new one that APNs calls expired too.
    [19, MIN_AGE_MS - 1, 1],
    [0, MIN_AGE_MS, 2],
  ])(
    'a token of %i minutes that APNs calls expired is kept, and the clock is named',
    async (minutes, ageMs, used) => {
      expect(await sendToOne()).toEqual(SENT);
      await provider.sandbox.script('apns', ONE.address, Array(used).fill(EXPIRED));
      clock.ms = ageMs;
      const detail = `403 ExpiredProviderToken for a token of ${minutes} minutes: the clock of the delivery-worker is off`;
      expect(await sendToOne()).toEqual([{ kind: 'auth-error', detail }]);
      expect(await receivedStatuses()).toEqual([200, ...Array(used).fill(403)]);
      expect(await sendToOne()).toEqual(SENT);
      expect(carried.size).toBe(used);
    },
  );
});

describe('a provider token', () => {
  const createKey = () =>
    generateKeyPairSync('ec', { namedCurve: 'P-256' })
      .privateKey.export({ type: 'pkcs8', format: 'pem' })
      .toString();
  const KEY = { key: createKey(), keyId: 'KEYKEYKEY1', teamId: 'TEAMTEAM01' };

  function createTokensWithClock() {
    // Not from 0: a clock may begin anywhere.
    const begin = 1_000;
    const clock = { minutes: begin, correctedBy: 0 };
    const startedAt = Date.now();
    const wallNow = () => startedAt + (clock.minutes - begin + clock.correctedBy) * MINUTE_MS;
    return { clock, tokens: createProviderTokens(() => clock.minutes * MINUTE_MS, wallNow) };
  }

  test('is a JWT as Apple requires, valid from now', () => {
    const before = Math.floor(Date.now() / 1_000);
    const { authorization } = createTokensWithClock().tokens.of(KEY).current();
    const [header = '', claims = '', signature = ''] = authorization
      .replace('bearer ', '')
      .split('.');
    const parse = (text: string) => JSON.parse(Buffer.from(text, 'base64url').toString());
    expect(parse(header)).toEqual({ alg: 'ES256', kid: KEY.keyId });
    const { iat, ...others } = parse(claims);
    expect(others).toEqual({ iss: KEY.teamId });
    expect(iat).toBeGreaterThanOrEqual(before);
    expect(iat).toBeLessThanOrEqual(Date.now() / 1_000);
    const key = { key: createPublicKey(KEY.key), dsaEncoding: 'ieee-p1363' } as const;
    const signed = Buffer.from(`${header}.${claims}`);
    expect(verify('sha256', signed, key, Buffer.from(signature, 'base64url'))).toBe(true);
  });

  test('is that of all users of a key, whatever the line ends of its file', () => {
    const { tokens } = createTokensWithClock();
    const token = tokens.of(KEY).current();
    expect(tokens.of({ ...KEY }).current()).toBe(token);
    expect(tokens.of({ ...KEY, key: KEY.key.replaceAll('\n', '\r\n') }).current()).toBe(token);
  });

  test.each([
    ['key id', { keyId: 'KEYKEYKEY2' }],
    ['team', { teamId: 'TEAMTEAM02' }],
    ['key under the same ids', { key: createKey() }],
  ])('is another one for another %s', (_, change) => {
    const { tokens } = createTokensWithClock();
    const token = tokens.of(KEY).current();
    expect(tokens.of({ ...KEY, ...change }).current()).not.toBe(token);
    expect(tokens.of(KEY).current()).toBe(token);
  });

  test.each([-120, 120])('is made anew when the clock is corrected by %d minutes', (minutes) => {
    const { clock, tokens } = createTokensWithClock();
    const token = tokens.of(KEY).current();
    clock.correctedBy = 0.9;
    expect(tokens.of(KEY).current()).toBe(token);
    clock.correctedBy = minutes;
    const next = tokens.of(KEY).current();
    expect(next).not.toBe(token);
    expect(tokens.of(KEY).current()).toBe(next);
  });

  test('that is old replaces nothing when it is refused late, nor does its successor', () => {
    const { clock, tokens } = createTokensWithClock();
    const token = tokens.of(KEY);
    const first = token.current();
    clock.minutes += 55;
    const second = token.current();
    expect(token.replace(first)).toBe(second);
    expect(token.replace(second)).toBeUndefined();
  });
});
