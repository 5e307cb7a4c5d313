import { expect, test } from '@jest/globals';
import { fcm } from '../../src/channels/fcm/client.ts';
import type { Attempt } from '../../src/deliver/provider.ts';
import { createPush } from '../create-push.ts';
import { useProvider } from '../provider-under-test.ts';

const SENT: Attempt = { kind: 'sent' };
const RETRY = { kind: 'retry', scope: 'upstream', detail: expect.any(String) };

const provider = useProvider((sandbox) => fcm.connect(sandbox.fcm));

/** Sends one push to devices 1 to n concurrently. */
function sendToMany(n: number, sender = provider.client): Promise<Attempt[]> {
  const send = sender.prepare(createPush(), () => true);
  const tokens = Array.from({ length: n }, (_, index) => `device-${index}`);
  const since = new Date();
  return Promise.all(tokens.map((address) => send({ channel: 'fcm', address, since })));
}

test('a window of messages uses keep-alive connections', async () => {
  for (let round = 0; round < 3; round += 1) {
    expect(await sendToMany(fcm.window)).toEqual(Array(fcm.window).fill(SENT));
  }
  expect(await provider.sandbox.connections('fcm')).toBeLessThanOrEqual(fcm.window + 1);
});

test('connections that are closed after their response lose no message', async () => {
  await provider.sandbox.injectFaults('fcm', { goawayEvery: 3 });
  for (let round = 0; round < 5; round += 1)
    expect(await sendToMany(20)).toEqual(Array(20).fill(SENT));
});

test('a lost connection defers only its own message, which isn’t sent twice', async () => {
  expect(await sendToMany(20)).toEqual(Array(20).fill(SENT));
  await provider.sandbox.reset();
  await provider.sandbox.injectFaults('fcm', { dropEvery: 5 });
  const attempts = await sendToMany(20);
  expect(attempts.filter(({ kind }) => kind === 'sent')).toHaveLength(16);
  expect(attempts.filter(({ kind }) => kind === 'retry')).toHaveLength(4);
  expect(await provider.sandbox.received('fcm')).toHaveLength(20);
});

test('a server that refuses connections defers all messages', async () => {
  await provider.sandbox.injectFaults('fcm', { refuse: true });
  expect(await sendToMany(3)).toEqual([RETRY, RETRY, RETRY]);
});

test('missing and endless responses time out after 15 s, and are not repeated for 10 s', async () => {
  expect(await sendToMany(1)).toEqual([SENT]);
  await provider.sandbox.script('fcm', 'oauth', { do: 'hang' });
  await provider.sandbox.script('fcm', 'device-0', { do: 'hang' });
  await provider.sandbox.script('fcm', 'device-1', { do: 'drip' });
  await provider.sandbox.script('fcm', 'device-2', { do: 'flood' });
  const withoutToken = fcm.connect(provider.sandbox.fcm);
  const startedAt = performance.now();
  const [attempts, others] = await Promise.all([sendToMany(4), sendToMany(2, withoutToken)]);
  expect(performance.now() - startedAt).toBeLessThan(17_000);
  const timeout = expect.objectContaining({ kind: 'retry', scope: 'upstream', afterMs: 10_000 });
  expect(attempts).toEqual([timeout, timeout, RETRY, SENT]);
  expect(others).toEqual([RETRY, RETRY]);
  await provider.sandbox.reset();
  expect(await sendToMany(4)).toEqual(Array(4).fill(SENT));
  await withoutToken.close();
});

test('closing awaits messages in flight and defers new ones', async () => {
  await provider.sandbox.injectFaults('fcm', { delayMs: 200 });
  const inFlight = sendToMany(20);
  await provider.client.close();
  expect(await inFlight).toEqual(Array(20).fill(SENT));
  expect(await sendToMany(1)).toEqual([{ kind: 'retry', scope: 'connection', detail: 'closing' }]);
  await provider.client.close();
});
