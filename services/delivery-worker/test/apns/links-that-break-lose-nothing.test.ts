import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { apns } from '../../src/channels/apns/client.ts';
import type { Attempt, ProviderClient } from '../../src/deliver/provider.ts';
import { aPush } from '../a-push.ts';
import { type ProviderSandbox, startProviderSandbox } from '../provider-sandbox.ts';
import { appleAddress } from './addresses.ts';

const SENT: Attempt = { kind: 'sent' };

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

/** One push to devices 0 to n - 1, all at once. */
function sendToMany(n: number): Promise<Attempt[]> {
  const send = client.begin(aPush());
  const names = Array.from({ length: n }, (_, index) => `device ${index}`);
  return Promise.all(names.map((name) => send(appleAddress(name, sandbox.bundle))));
}

/** As the driver does it: what may go again at once goes again. */
async function sendUntilSent(name: string): Promise<void> {
  const address = appleAddress(name, sandbox.bundle);
  const send = client.begin(aPush());
  let attempt = await send(address);
  for (let tries = 1; attempt.kind !== 'sent' && tries < 20; tries += 1) {
    expect(attempt).toMatchObject({ kind: 'retry', scope: 'recipient', afterMs: 0 });
    attempt = await send(address);
  }
  expect(attempt).toEqual(SENT);
}

test('GOAWAY with 50 in flight loses none', async () => {
  await sandbox.conduct('apns', { delayMs: 50, goawayEvery: 50 });
  expect(await sendToMany(50)).toEqual(Array(50).fill(SENT));
  expect(await sandbox.received('apns')).toHaveLength(50);
});

test('GOAWAY after GOAWAY loses none, and doubles none', async () => {
  await sandbox.conduct('apns', { delayMs: 5, goawayEvery: 10 });
  const names = Array.from({ length: 200 }, (_, index) => `device ${index}`);
  await Promise.all(names.map(sendUntilSent));
  const accepted = (await sandbox.received('apns')).filter(({ status }) => status === 200);
  expect(accepted).toHaveLength(200);
  expect(await sandbox.doubles()).toBe(0);
});

test('few streams at once only make it slower', async () => {
  await sandbox.conduct('apns', { streamLimit: 5, delayMs: 10 });
  expect(await sendToMany(apns.window)).toEqual(Array(apns.window).fill(SENT));
});

test('a cut link puts off what was in flight, and the next request makes a new one', async () => {
  await sandbox.conduct('apns', { delayMs: 50, dropEvery: 20 });
  const attempts = await sendToMany(20);
  expect(attempts.filter(({ kind }) => kind === 'retry').length).toBeGreaterThan(0);
  expect(attempts.every(({ kind }) => kind === 'retry' || kind === 'sent')).toBe(true);
  await sandbox.conduct('apns', { delayMs: 0, dropEvery: null });
  expect(await sendToMany(20)).toEqual(Array(20).fill(SENT));
});

test('a server that takes no connection puts all off', async () => {
  await sandbox.conduct('apns', { refuse: true });
  const retry = expect.objectContaining({ kind: 'retry', scope: 'line' });
  expect(await sendToMany(5)).toEqual(Array(5).fill(retry));
});

test('a silent server and an answer without an end are waited for 10 s, not longer', async () => {
  const drip = appleAddress('device 0', sandbox.bundle).address;
  await sandbox.script('apns', '*', { do: 'hang' });
  await sandbox.script('apns', drip, { status: 400, do: 'drip' });
  const startedAt = performance.now();
  const retry = expect.objectContaining({ kind: 'retry', scope: 'line' });
  expect(await sendToMany(3)).toEqual([retry, retry, retry]);
  expect(performance.now() - startedAt).toBeLessThan(11_000);
  await sandbox.reset();
  expect(await sendToMany(1)).toEqual([SENT]);
});

test('closing lets what is in flight end, and takes nothing more', async () => {
  await sandbox.conduct('apns', { delayMs: 200 });
  const inFlight = sendToMany(20);
  const send = client.begin(aPush());
  await client.close();
  expect(await inFlight).toEqual(Array(20).fill(SENT));
  expect(await send(appleAddress('late', sandbox.bundle))).toMatchObject({ kind: 'retry' });
  await client.close();
});
