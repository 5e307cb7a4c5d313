import { expect, test } from '@jest/globals';
import { apns, connectApns } from '../../src/channels/apns/client.ts';
import {
  createProviderTokens,
  type ProviderToken,
  type ProviderTokens,
} from '../../src/channels/apns/provider-token.ts';
import type { Attempt, ProviderClient } from '../../src/deliver/provider.ts';
import { createPush } from '../create-push.ts';
import { useProvider } from '../provider-under-test.ts';
import { createAppleAddress } from './addresses.ts';

const SENT: Attempt = { kind: 'sent' };
const EXPIRED = { as: 'ExpiredProviderToken' };
const [MIN_AGE_MS, MAX_AGE_MS] = [20 * 60_000, 55 * 60_000];

/** Clock, registry and tokens that requests have carried: each test has its own. */
let clock = { ms: 0 };
let tokens: ProviderTokens;
let carried = new Set<ProviderToken>();

const provider = useProvider(({ apnsToken }) => {
  clock = { ms: 0 };
  carried = new Set();
  const now = () => clock.ms;
  tokens = recordCarried(createProviderTokens(now, now));
  return connectApns(apnsToken, tokens);
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

function sendTo(
  name: string,
  client: ProviderClient = provider.client,
  environment: 'development' | 'production' = 'production',
): Promise<Attempt> {
  const address = createAppleAddress(name, provider.sandbox.bundle, environment);
  return client.prepare(createPush(), () => true)(address);
}

/** Sends one push to devices 0 to n - 1 concurrently. */
function sendToMany(n: number): Promise<Attempt[]> {
  const send = provider.client.prepare(createPush(), () => true);
  const names = Array.from({ length: n }, (_, index) => `device ${index}`);
  return Promise.all(names.map((name) => send(createAppleAddress(name, provider.sandbox.bundle))));
}

async function scriptTo(name: string, ...responses: object[]): Promise<void> {
  const { address } = createAppleAddress(name, provider.sandbox.bundle);
  await provider.sandbox.scriptOnce('apns', address, ...responses);
}

async function receivedStatuses(): Promise<(number | null)[]> {
  return (await provider.sandbox.received('apns')).map(({ status }) => status);
}

test('both environments and a client that is opened anew send with the same token', async () => {
  expect(await sendTo('one')).toEqual(SENT);
  expect(await sendTo('two', provider.client, 'development')).toEqual(SENT);
  await provider.client.close();
  clock.ms = MAX_AGE_MS - 1;
  const reopened = connectApns(provider.sandbox.apnsToken, tokens);
  expect(await sendTo('one', reopened)).toEqual(SENT);
  await reopened.close();
  expect(carried.size).toBe(1);
});

test('clients of the channel share the tokens of the process', async () => {
  const { sandbox } = provider;
  const [one, other] = [apns.connect(sandbox.apnsToken), apns.connect(sandbox.apnsToken)];
  expect(await sendTo('one', one)).toEqual(SENT);
  await sandbox.injectFaults('apns', { expireTokens: true });
  expect(await sendTo('one', other)).toMatchObject({ kind: 'auth-error' });
  await Promise.all([one.close(), other.close()]);
});

test('a token of 55 minutes is replaced before a request', async () => {
  expect(await sendTo('one')).toEqual(SENT);
  await provider.sandbox.injectFaults('apns', { expireTokens: true });
  clock.ms = MAX_AGE_MS;
  expect(await sendToMany(20)).toEqual(Array(20).fill(SENT));
  expect(carried.size).toBe(2);
  expect(await receivedStatuses()).toEqual(Array(21).fill(200));
});

test('an expired provider token is renewed once', async () => {
  expect(await sendTo('first')).toEqual(SENT);
  await scriptTo('one', EXPIRED);
  clock.ms = MIN_AGE_MS;
  expect(await sendTo('one')).toEqual(SENT);
  expect(await receivedStatuses()).toEqual([200, 403, 200]);
  expect(carried.size).toBe(2);
});

test('all requests with an expired provider token are sent again with one new token', async () => {
  expect(await sendTo('first')).toEqual(SENT);
  await provider.sandbox.injectFaults('apns', { expireTokens: true });
  clock.ms = MIN_AGE_MS;
  expect(await sendToMany(20)).toEqual(Array(20).fill(SENT));
  const statuses = await receivedStatuses();
  expect(statuses.filter((status) => status === 403)).toHaveLength(20);
  expect(statuses.filter((status) => status === 200)).toHaveLength(21);
  expect(carried.size).toBe(2);
});

test('a young token that APNs calls expired is kept, and the clock is named', async () => {
  expect(await sendTo('first')).toEqual(SENT);
  await scriptTo('one', EXPIRED);
  clock.ms = MIN_AGE_MS - 1;
  expect(await sendTo('one')).toEqual({
    kind: 'auth-error',
    detail:
      '403 ExpiredProviderToken for a token of 19 minutes: the clock of the delivery-worker is off',
  });
  expect(await receivedStatuses()).toEqual([200, 403]);
  expect(await sendTo('one')).toEqual(SENT);
  expect(carried.size).toBe(1);
});

test('a new token that APNs calls expired too is kept, and the clock is named', async () => {
  expect(await sendTo('first')).toEqual(SENT);
  await scriptTo('one', EXPIRED, EXPIRED);
  clock.ms = MIN_AGE_MS;
  expect(await sendTo('one')).toEqual({
    kind: 'auth-error',
    detail:
      '403 ExpiredProviderToken for a token of 0 minutes: the clock of the delivery-worker is off',
  });
  expect(await receivedStatuses()).toEqual([200, 403, 403]);
  expect(await sendTo('one')).toEqual(SENT);
  expect(carried.size).toBe(2);
});
