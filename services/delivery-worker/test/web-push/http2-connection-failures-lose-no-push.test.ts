import { describe, expect, test } from '@jest/globals';
import { createWebPush } from '../../src/channels/web-push/client.ts';
import type { Address, Attempt } from '../../src/deliver/provider.ts';
import { useProvider } from '../provider-under-test.ts';
import { createPush, createSecret } from './pushes.ts';

const DEADLINE_MS = 1_000;
const SENT: Attempt = { kind: 'sent' };
const RETRY_UPSTREAM = expect.objectContaining({ kind: 'retry', scope: 'upstream' });
/** To be repeated at once: it has no delay. */
const RETRY_CONNECTION = { kind: 'retry', scope: 'connection', detail: expect.any(String) };

const provider = useProvider(({ webPush: { host, ca } }) =>
  createWebPush({ hosts: [host], ca, deadlineMs: DEADLINE_MS }).connect(createSecret()),
);

async function createBrowserAddress(): Promise<Address> {
  const { endpoint: address, key: p256dh, auth } = await provider.sandbox.subscribe();
  return { channel: 'web-push', address, p256dh, auth, since: new Date() };
}

const tokenOf = ({ address }: Address): string => address.split('/').at(-1) ?? '';

/** Sends one push to n browsers concurrently. */
async function sendToMany(n: number): Promise<Attempt[]> {
  const send = provider.client.prepare(createPush(), () => true);
  const browsers = await Promise.all(Array.from({ length: n }, createBrowserAddress));
  return Promise.all(browsers.map(send));
}

test('a window of pushes uses one connection, and each is decrypted', async () => {
  for (let round = 0; round < 3; round += 1) {
    expect(await sendToMany(50)).toEqual(Array(50).fill(SENT));
  }
  expect(await provider.sandbox.connections('web-push')).toBe(1);
  const received = await provider.sandbox.received('web-push');
  expect(received.map(({ payload }) => payload)).not.toContain(null);
});

test('a low stream limit loses no push', async () => {
  await provider.sandbox.injectFaults('web-push', { streamLimit: 5 });
  expect(await sendToMany(50)).toEqual(Array(50).fill(SENT));
});

test('repeated GOAWAYs lose and duplicate no push', async () => {
  await provider.sandbox.injectFaults('web-push', { goawayEvery: 7 });
  for (let round = 0; round < 5; round += 1) {
    const attempts = await sendToMany(20);
    expect(attempts.filter(({ kind }) => kind !== 'sent' && kind !== 'retry')).toEqual([]);
    const sent = attempts.filter(({ kind }) => kind === 'sent').length;
    expect(sent).toBeGreaterThanOrEqual(18);
  }
  expect(await provider.sandbox.duplicates()).toBe(0);
});

test('a lost connection defers its pushes, and the next push opens another', async () => {
  expect(await sendToMany(1)).toEqual([SENT]);
  await provider.sandbox.injectFaults('web-push', { dropEvery: 1 });
  expect(await sendToMany(3)).toEqual([RETRY_UPSTREAM, RETRY_UPSTREAM, RETRY_UPSTREAM]);
  await provider.sandbox.reset();
  expect(await sendToMany(3)).toEqual([SENT, SENT, SENT]);
});

test('a missing response times out, and its connection is not used again', async () => {
  await provider.sandbox.injectFaults('web-push', { blackHole: true });
  const startedAt = performance.now();
  expect(await sendToMany(3)).toEqual([RETRY_UPSTREAM, RETRY_UPSTREAM, RETRY_UPSTREAM]);
  expect(performance.now() - startedAt).toBeLessThan(3 * DEADLINE_MS);
  await provider.sandbox.reset();
  expect(await sendToMany(1)).toEqual([SENT]);
  expect(await provider.sandbox.connections('web-push')).toBe(1);
});

test('a service that refuses connections defers all pushes', async () => {
  await provider.sandbox.injectFaults('web-push', { refuse: true });
  expect(await sendToMany(3)).toEqual([RETRY_UPSTREAM, RETRY_UPSTREAM, RETRY_UPSTREAM]);
});

describe('one request that', () => {
  test.each([
    ['is refused unprocessed is to be repeated at once', { do: 'refuse-stream' }, RETRY_CONNECTION],
    ['is reset counts against the upstream', { do: 'reset' }, RETRY_UPSTREAM],
    ['hangs counts against the upstream', { do: 'hang' }, RETRY_UPSTREAM],
    ['has an endless response is sent', { do: 'flood' }, SENT],
    ['has a response of single bytes is sent', { do: 'drip' }, SENT],
    [
      'is redirected is not followed',
      { do: 'redirect' },
      expect.objectContaining({ reason: 'rejected-by-provider' }),
    ],
  ])('%s', async (_, response, attempt) => {
    const address = await createBrowserAddress();
    await provider.sandbox.script('web-push', tokenOf(address), response);
    expect(await provider.client.prepare(createPush(), () => true)(address)).toEqual(attempt);
    expect(await provider.sandbox.received('web-push')).toHaveLength(1);
  });
});
