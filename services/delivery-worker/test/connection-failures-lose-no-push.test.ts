import type { ProviderChannelName } from '@carillon/core/channels';
import { describe, expect, test } from '@jest/globals';
import { measureLag } from '../../../test/support/lag.ts';
import type { Address, Attempt } from '../src/deliver/provider.ts';
import { CHANNELS } from './channels-under-test.ts';
import { sendTo, useProvider } from './provider-under-test.ts';
import { createPush } from './pushes.ts';

const SENT: Attempt = { kind: 'sent' };
/** Without a delay that a provider or the client asks for. */
const RETRY = { kind: 'retry', scope: 'upstream', detail: expect.any(String) };
/** To be repeated at once: it has no delay. */
const REPEAT = { kind: 'retry', scope: 'connection', detail: expect.any(String) };
const REJECTED = expect.objectContaining({ kind: 'rejected', reason: 'rejected-by-provider' });

/** What each channel makes of a single response. */
const ONE_REQUEST: [ProviderChannelName, object, unknown][] = [
  ['apns', { do: 'refuse-stream' }, REPEAT],
  ['apns', { do: 'reset' }, RETRY],
  ['apns', { do: 'drop' }, RETRY],
  ['apns', { do: 'redirect' }, RETRY],
  ['apns', { status: 400, do: 'flood' }, RETRY],
  ['apns', { status: 502, body: '<html>' }, RETRY],
  ['fcm', { do: 'reset' }, RETRY],
  ['fcm', { do: 'drop' }, RETRY],
  ['fcm', { do: 'redirect' }, RETRY],
  ['fcm', { do: 'flood' }, RETRY],
  ['fcm', { status: 502, body: '<html>' }, RETRY],
  ['fcm', { status: 404, body: '<html>' }, RETRY],
  ['web-push', { do: 'refuse-stream' }, REPEAT],
  ['web-push', { do: 'reset' }, RETRY],
  ['web-push', { do: 'drop' }, RETRY],
  ['web-push', { do: 'redirect' }, REJECTED],
  ['web-push', { do: 'flood' }, SENT],
  ['web-push', { do: 'drip' }, SENT],
];

describe.each(['apns', 'fcm', 'web-push'] as const)('%s', (name) => {
  const channel = CHANNELS[name];
  const provider = useProvider(channel.connect);

  const createAddresses = (n: number): Promise<Address[]> =>
    Promise.all(
      Array.from({ length: n }, (_, index) =>
        channel.createAddress(provider.sandbox, `device-${index}`),
      ),
    );
  const sendToMany = async (n: number) => sendTo(provider.client, await createAddresses(n));

  /** Reads the requests for devices, without those to the token server of FCM. */
  const listReceived = async () =>
    (await provider.sandbox.receivedOver(name)).filter(({ to }) => to !== 'oauth');

  test('a window of pushes uses few connections', async () => {
    for (let round = 0; round < 3; round += 1)
      expect(await sendToMany(channel.window)).toEqual(Array(channel.window).fill(SENT));
    const { connections = 0 } = (await provider.sandbox.counts()).byChannel[name] ?? {};
    expect(connections).toBeLessThanOrEqual(name === 'fcm' ? channel.window + 1 : 1);
    expect((await listReceived()).map(({ payload }) => payload)).not.toContain(null);
  });

  test('connections that the server closes again and again lose and duplicate no push', async () => {
    await provider.sandbox.setFaults(name, { delayMs: 5, goawayEvery: 7 });
    const send = provider.client.prepare(createPush(), () => true);
    const sendUntilSent = async (address: Address) => {
      let attempt = await send(address);
      for (let tries = 1; attempt.kind !== 'sent' && tries < 20; tries += 1) {
        expect(attempt).toEqual(REPEAT);
        attempt = await send(address);
      }
      return attempt;
    };
    const addresses = await createAddresses(100);
    expect(await Promise.all(addresses.map(sendUntilSent))).toEqual(Array(100).fill(SENT));
    expect((await provider.sandbox.counts()).duplicates).toBe(0);
  });

  if (name !== 'fcm')
    test('a low stream limit loses no push', async () => {
      await provider.sandbox.setFaults(name, { streamLimit: 5, delayMs: 10 });
      expect(await sendToMany(channel.window)).toEqual(Array(channel.window).fill(SENT));
    });

  test('a lost connection defers its pushes, sends none twice, and the next push opens another', async () => {
    expect(await sendToMany(1)).toEqual([SENT]);
    await provider.sandbox.reset();
    await provider.sandbox.setFaults(name, { delayMs: 50, dropEvery: 5 });
    const attempts = await sendToMany(20);
    const deferred = attempts.filter(({ kind }) => kind !== 'sent');
    expect(deferred).toEqual(deferred.map(() => RETRY));
    // Over HTTP/2 the requests in flight share the connection.
    const received = (await listReceived()).length;
    if (name === 'fcm') expect([deferred.length, received]).toEqual([4, 20]);
    else expect(deferred.length).toBeGreaterThan(0);
    expect(received).toBeLessThanOrEqual(20);
    await provider.sandbox.reset();
    expect(await sendToMany(20)).toEqual(Array(20).fill(SENT));
  });

  test('a server that refuses connections defers all pushes', async () => {
    await provider.sandbox.setFaults(name, { refuse: true });
    expect(await sendToMany(3)).toEqual([RETRY, RETRY, RETRY]);
  });

  test('missing and slow responses time out, and their connection is not used again', async () => {
    const addresses = await createAddresses(3);
    const [, slow] = addresses;
    await provider.sandbox.scriptPermanently(name, '*', { do: 'hang' });
    const drip = { status: 400, do: 'drip' };
    if (name !== 'web-push')
      await provider.sandbox.scriptPermanently(name, slow?.address ?? '', drip);
    const startedAt = performance.now();
    const lag = measureLag();
    const attempts = await sendTo(provider.client, addresses);
    const elapsedMs = performance.now() - startedAt - 3 * lag.stop();
    // FCM may send a message that it has not answered, so it is not repeated for a while.
    const timeout = { ...RETRY, ...(name === 'fcm' && { afterMs: 10_000 }) };
    expect(attempts).toEqual([timeout, timeout, timeout]);
    expect(elapsedMs).toBeLessThan(channel.deadlineMs + 1_000);
    await provider.sandbox.reset();
    expect(await sendToMany(1)).toEqual([SENT]);
    expect((await provider.sandbox.counts()).byChannel[name]?.connections).toBe(1);
  });

  if (name === 'fcm')
    test('a message without an access token, which does not come, was not sent', async () => {
      await provider.sandbox.scriptPermanently('fcm', 'oauth', { do: 'hang' });
      expect(await sendToMany(2)).toEqual([RETRY, RETRY]);
    });

  test('closing awaits pushes in flight and defers new ones', async () => {
    const [late] = await createAddresses(1);
    await provider.sandbox.setFaults(name, { delayMs: 200 });
    const addresses = await createAddresses(20);
    const inFlight = sendTo(provider.client, addresses);
    await provider.client.close();
    expect(await inFlight).toEqual(Array(20).fill(SENT));
    if (name !== 'web-push') {
      const closing = { kind: 'retry', scope: 'connection', detail: 'closing' };
      expect(await sendTo(provider.client, [late as Address])).toEqual([closing]);
    }
    await provider.client.close();
  });

  test('a push that may no longer be sent is withheld once it has a connection', async () => {
    const [address] = await createAddresses(1);
    let maySend = true;
    const send = provider.client.prepare(createPush(), () => maySend);
    const attempt = send(address as Address);
    maySend = false;
    expect(await attempt).toEqual({ kind: 'withheld' });
    // Over the connection that is open now.
    expect(await send(address as Address)).toEqual({ kind: 'withheld' });
    maySend = true;
    expect(await send(address as Address)).toEqual(SENT);
    expect(await listReceived()).toHaveLength(1);
  });

  const rows = ONE_REQUEST.filter(([of]) => of === name);
  test.each(rows)('%s: one request with %j', async (_, response, attempt) => {
    const [address] = await createAddresses(1);
    await provider.sandbox.scriptPermanently(name, address?.address ?? '', {
      ...response,
    });
    expect(await sendTo(provider.client, [address as Address])).toEqual([attempt]);
    expect(await listReceived()).toHaveLength(1);
  });
});
