import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { getPushStatus, type Sent, send } from '../support/end-to-end/pushes.ts';
import { measureLag } from '../support/lag.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import {
  registerAndroids,
  registerBrowsers,
  registerIphones,
} from '../support/providers/provider-device-pool.ts';
import type { Received } from '../support/providers/sandbox.ts';
import { until } from '../support/until.ts';

const IPHONES = 2_000;
const ANDROIDS = 1_000;
const BROWSERS = 300;
const SUBSET_SIZE = 20;
/** All devices of a pool take some seconds more. */
const SLOW = { delayMs: 500 };
/** Maximum time of an expiry after a full second: the rest of that second is for requests in flight. */
const EXPIRES_WITHIN_MS = 300;
const MAX_TRIES = 20;
/** Guarantee G8. */
const STOPS_WITHIN_MS = 1_000;
/** How long a push with time to live 0 is tried. */
const SEND_NOW_MS = 5_000;

let fixture: ProviderFixture;
let tenant: TestTenant;
beforeAll(async () => {
  fixture = await openProviderFixture();
  tenant = await fixture.tenant({ fcm: 0 });
});
afterEach(() => fixture?.sandbox.reset());
afterAll(() => fixture?.close());

/** Waits until a provider has got something of a push. */
async function untilSending({ id }: Sent): Promise<void> {
  const isReceived = async () => (await fixture.sandbox.received(id)).length > 0;
  await until(isReceived, { timeoutMs: 60_000 });
}

/**
 * Sends one more push to each of these devices, and waits until a provider has got it, after everything in flight. Returns its
 * requests.
 */
async function untilMarkersReceived(tokens: readonly string[], fields = {}): Promise<Received[]> {
  const marker = await send(tenant, tokens, fields);
  const readAll = async () => {
    const received = await fixture.sandbox.received(marker.id);
    return new Set(received.map(({ to }) => to)).size === tokens.length && received;
  };
  return until(readAll, { timeoutMs: 60_000, what: 'the markers' });
}

/** Measures for how many milliseconds at most the sandbox, by whose clock requests arrive, responds to nothing. */
function measureSandboxLag() {
  let [lagMs, isStopped] = [0, false];
  async function measure(): Promise<number> {
    while (!isStopped) {
      const askedAt = performance.now();
      await fixture.sandbox.credentials();
      lagMs = Math.max(lagMs, performance.now() - askedAt);
      await sleep(20);
    }
    return lagMs;
  }
  const measuring = measure();
  return {
    stop(): Promise<number> {
      isStopped = true;
      return measuring;
    },
  };
}

test('a push that is deleted in the middle is sent to no further device after a second', async () => {
  const { sandbox, store } = fixture;
  const pools = [
    await registerIphones(tenant, IPHONES),
    await registerAndroids(tenant, ANDROIDS),
    await registerBrowsers(tenant, sandbox, BROWSERS),
  ];
  for (const channel of ['apns', 'fcm', 'web-push']) await sandbox.setFaults(channel, SLOW);
  const pushes: Sent[] = [];
  for (const { tokens } of pools) pushes.push(await send(tenant, tokens));
  await Promise.all(pushes.map(untilSending));
  const responses = await Promise.all(
    pushes.map(({ id }) => tenant.api('DELETE', `/pushes/${id}`)),
  );
  expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
  const [deletedAt, lag, sandboxLag] = [Date.now(), measureLag(), measureSandboxLag()];
  await sleep(STOPS_WITHIN_MS);
  const last = pools.flatMap(({ tokens }) => tokens.slice(-SUBSET_SIZE));
  const markers = await untilMarkersReceived(last);
  const lagMs = 3 * lag.stop() + (await sandboxLag.stop());
  const lastAt = deletedAt + STOPS_WITHIN_MS + lagMs;

  for (const [index, { id }] of pushes.entries()) {
    const received = await sandbox.received(id);
    expect(received.length).toBeLessThan(pools[index]?.tokens.length ?? 0);
    // The same worker wrote the markers a second after the deletion, on the same connections.
    const { channel } = received[0] as Received;
    const lastMarker = Math.max(...markers.map((one) => (one.channel === channel ? one.n : 0)));
    expect(received.filter(({ n, at }) => n > lastMarker || at > lastAt)).toEqual([]);
    // The rest ends some seconds after the response.
    const ends = await until(async () => {
      const { outcomes = {}, devices } = (await store.deliveryStatus.statusOfPush(id)) ?? {};
      return (outcomes.sent ?? 0) + (outcomes.deleted ?? 0) === devices && outcomes;
    });
    expect(ends.deleted).toBeGreaterThan(0);
  }
});

/** Waits until a push has ended. */
function untilFinished({ id }: Sent): Promise<true> {
  const isOver = async () =>
    (await fixture.store.deliveryStatus.statusOfPush(id))?.state === 'finished';
  return until(isOver, { timeoutMs: 60_000, what: `the end of ${id}` });
}

/** Sends until a push expires at the start of a second: the API gives the expiration in whole seconds. */
async function sendAtStartOfSecond(
  tokens: readonly string[],
  fields: Record<string, unknown>,
): Promise<Sent> {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    await until(() => Date.now() % 1_000 < 100);
    const push = await send(tenant, tokens, fields);
    const stored = await fixture.store.pushes.inspect(push.id);
    if ((stored?.expiresAt.getUTCMilliseconds() ?? 1_000) < EXPIRES_WITHIN_MS) return push;
    await untilFinished(push);
  }
  throw new Error('no push expires at the start of a second');
}

test('a push that expires in the middle is sent to no further device', async () => {
  const { sandbox, store } = fixture;
  const { tokens } = await registerIphones(tenant, IPHONES);
  await sandbox.setFaults('apns', SLOW);
  const push = await sendAtStartOfSecond(tokens, { time_to_live: 2 });
  const { expiration } = await getPushStatus(tenant, push.id);
  await untilFinished(push);
  await untilMarkersReceived(tokens.slice(-SUBSET_SIZE));
  const received = await sandbox.received(push.id);
  // The expiration is in whole seconds.
  expect(received.filter(({ at }) => at >= (expiration + 1) * 1_000)).toEqual([]);
  // The rest ends when the workers have settled their batches.
  const ends = await until(async () => {
    const { outcomes = {} } = (await store.deliveryStatus.statusOfPush(push.id)) ?? {};
    return (outcomes.sent ?? 0) + (outcomes.expired ?? 0) === IPHONES && outcomes;
  });
  expect(ends.expired).toBeGreaterThan(0);
});

test('a push with time to live 0 is tried for five seconds, and no longer', async () => {
  const { sandbox, store } = fixture;
  const { tokens } = await registerIphones(tenant, SUBSET_SIZE);
  await sandbox.scriptPermanently('apns', '*', { as: 'TooManyRequests' });
  const lag = measureLag();
  const push = await send(tenant, tokens, { time_to_live: 0 });
  const acceptedAt = Date.now();
  await untilOutcomeCounts(store, push, { expired: SUBSET_SIZE });
  await untilMarkersReceived(tokens, { time_to_live: 0 });
  const lastAt = acceptedAt + SEND_NOW_MS + 1_000 + 3 * lag.stop();
  const received = await sandbox.received(push.id);
  expect(received.length).toBeGreaterThan(0);
  expect(received.filter(({ at }) => at > lastAt)).toEqual([]);
});
