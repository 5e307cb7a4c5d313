import { expect, test } from '@jest/globals';
import { apns } from '../../src/channels/apns/client.ts';
import type { Attempt } from '../../src/deliver/provider.ts';
import { createPush } from '../create-push.ts';
import { useProvider } from '../provider-under-test.ts';
import { createAppleAddress } from './addresses.ts';

const SENT: Attempt = { kind: 'sent' };

const provider = useProvider(({ apnsToken }) => apns.connect(apnsToken));

/** Sends one push to devices 0 to n - 1 concurrently. */
function sendToMany(n: number): Promise<Attempt[]> {
  const send = provider.client.prepare(createPush(), () => true);
  const names = Array.from({ length: n }, (_, index) => `device ${index}`);
  return Promise.all(names.map((name) => send(createAppleAddress(name, provider.sandbox.bundle))));
}

/** Retries at once a request that is known to be unprocessed. */
async function sendUntilSent(name: string): Promise<void> {
  const address = createAppleAddress(name, provider.sandbox.bundle);
  const send = provider.client.prepare(createPush(), () => true);
  let attempt = await send(address);
  for (let tries = 1; attempt.kind !== 'sent' && tries < 20; tries += 1) {
    expect(attempt).toMatchObject({ kind: 'retry', scope: 'connection' });
    attempt = await send(address);
  }
  expect(attempt).toEqual(SENT);
}

test('a GOAWAY with 50 requests in flight loses no push', async () => {
  await provider.sandbox.injectFaults('apns', { delayMs: 50, goawayEvery: 50 });
  expect(await sendToMany(50)).toEqual(Array(50).fill(SENT));
  expect(await provider.sandbox.received('apns')).toHaveLength(50);
});

test('repeated GOAWAYs lose and duplicate no push', async () => {
  await provider.sandbox.injectFaults('apns', { delayMs: 5, goawayEvery: 10 });
  const names = Array.from({ length: 200 }, (_, index) => `device ${index}`);
  await Promise.all(names.map(sendUntilSent));
  const accepted = (await provider.sandbox.received('apns')).filter(({ status }) => status === 200);
  expect(accepted).toHaveLength(200);
  expect(await provider.sandbox.duplicates()).toBe(0);
});

test('a low stream limit loses no push', async () => {
  await provider.sandbox.injectFaults('apns', { streamLimit: 5, delayMs: 10 });
  expect(await sendToMany(apns.window)).toEqual(Array(apns.window).fill(SENT));
});

test('a lost connection defers the requests in flight, and the next request opens another', async () => {
  await provider.sandbox.injectFaults('apns', { delayMs: 50, dropEvery: 20 });
  const attempts = await sendToMany(20);
  expect(attempts.filter(({ kind }) => kind === 'retry').length).toBeGreaterThan(0);
  expect(attempts.every(({ kind }) => kind === 'retry' || kind === 'sent')).toBe(true);
  await provider.sandbox.injectFaults('apns', { delayMs: 0, dropEvery: null });
  expect(await sendToMany(20)).toEqual(Array(20).fill(SENT));
});

test('a server that refuses connections defers all requests', async () => {
  await provider.sandbox.injectFaults('apns', { refuse: true });
  const retry = expect.objectContaining({ kind: 'retry', scope: 'upstream' });
  expect(await sendToMany(5)).toEqual(Array(5).fill(retry));
});

test('a missing response and an endless response time out after 10 s', async () => {
  const drip = createAppleAddress('device 0', provider.sandbox.bundle).address;
  await provider.sandbox.script('apns', '*', { do: 'hang' });
  await provider.sandbox.script('apns', drip, { status: 400, do: 'drip' });
  const startedAt = performance.now();
  const retry = expect.objectContaining({ kind: 'retry', scope: 'upstream' });
  expect(await sendToMany(3)).toEqual([retry, retry, retry]);
  expect(performance.now() - startedAt).toBeLessThan(11_000);
  await provider.sandbox.reset();
  expect(await sendToMany(1)).toEqual([SENT]);
});

test('closing awaits requests in flight and defers new ones', async () => {
  await provider.sandbox.injectFaults('apns', { delayMs: 200 });
  const inFlight = sendToMany(20);
  const send = provider.client.prepare(createPush(), () => true);
  await provider.client.close();
  expect(await inFlight).toEqual(Array(20).fill(SENT));
  expect(await send(createAppleAddress('late', provider.sandbox.bundle))).toEqual({
    kind: 'retry',
    scope: 'connection',
    detail: 'closing',
  });
  await provider.client.close();
});
