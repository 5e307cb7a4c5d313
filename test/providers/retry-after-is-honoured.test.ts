import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { SEVERAL } from '../../packages/core/src/circuit.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { type Sent, send } from '../support/end-to-end/pushes.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { registerAndroids, registerIphones } from '../support/providers/provider-device-pool.ts';
import {
  countAttempts,
  findEarlyRetries,
  findLateRetries,
} from '../support/providers/retry-timing.ts';
import type { Received } from '../support/providers/sandbox.ts';
import { until } from '../support/until.ts';

const POOL_SIZE = 500;
const SUBSET_SIZE = 50;
const PAUSE_SECONDS = 3;
const PAUSE_MS = PAUSE_SECONDS * 1_000;
/** Requests that may be in flight to APNs, and to FCM. */
const WINDOWS = { apns: 150, fcm: 100 };
/** Requests that take the place of those whose answers are not enough yet to stop all, and a probe for each pause. */
const MORE = SEVERAL - 1 + 2;
/** Responses to requests that were in flight when the first one arrived. */
const UNDER_WAY_MS = 1_000;
const SHORT_STORM_MS = 6_000;
const FIRST_WAIT_MS = 1_000;
/** The storm, and the minute in which all are to be sent. */
const DEADLINE_MS = 120_000;
/** Until due batches are claimed, on a busy machine. */
const LATE_MS = 4_000;

let fixture: ProviderFixture;
let tenant: TestTenant;
beforeAll(async () => {
  fixture = await openProviderFixture();
  tenant = await fixture.tenant({ fcmFallbackSeconds: 0 });
});
afterEach(() => fixture?.sandbox.reset());
afterAll(() => fixture?.close());

function retryAfter(seconds: number) {
  return { headers: { 'retry-after': String(seconds) } };
}

/** Scripts the response to all addresses of a channel from now on. */
function scriptAll(channel: string, response: object): Promise<void> {
  return fixture.sandbox.scriptPermanently(channel, '*', { ...response });
}

/**
 * Waits until the provider got a request after each of two pauses: had one of them not been kept, its requests would be
 * there. Returns all requests that got this status.
 */
async function untilProbedTwice(push: Sent, status: number): Promise<Received[]> {
  const readRejected = async () =>
    (await fixture.sandbox.received(push.id)).filter((one) => one.status === status);
  return until(
    async () => {
      const rejected = await readRejected();
      const pauseFrom = (rejected[0]?.at ?? 0) + UNDER_WAY_MS;
      return rejected.filter(({ at }) => at > pauseFrom).length >= 2 && rejected;
    },
    { timeoutMs: 30_000, everyMs: 100, what: 'a probe after each of two pauses' },
  );
}

test('each recipient is retried when it may be, and a pause of the provider applies to all', async () => {
  const { sandbox, store } = fixture;
  const { tokens } = await registerIphones(tenant, POOL_SIZE);
  await scriptAll('apns', { as: 'TooManyRequests', ...retryAfter(PAUSE_SECONDS) });
  const push = await send(tenant, tokens);
  await until(async () => (await sandbox.counts()).requests >= POOL_SIZE);
  await scriptAll('apns', { as: 'ServiceUnavailable', ...retryAfter(PAUSE_SECONDS) });
  const unavailable = await untilProbedTwice(push, 503);
  await scriptAll('apns', {});
  await untilOutcomeCounts(store, push, { sent: POOL_SIZE });

  const received = await sandbox.received(push.id);
  expect(findEarlyRetries(received, 429, () => PAUSE_MS)).toEqual([]);
  expect(findEarlyRetries(received, 503, () => PAUSE_MS)).toEqual([]);
  const first = unavailable[0]?.at ?? 0;
  const inPause = unavailable.filter(
    ({ at }) => at > first + UNDER_WAY_MS && at < first + PAUSE_MS,
  );
  expect(inPause).toEqual([]);
  // The window when it began, then a probe for each pause.
  expect(unavailable.length).toBeLessThanOrEqual(WINDOWS.apns + MORE);
  expect((await sandbox.counts()).duplicates).toBe(0);
});

test('an exhausted quota of FCM stops all requests until its Retry-After', async () => {
  const { sandbox } = fixture;
  const { tokens } = await registerAndroids(tenant, POOL_SIZE);
  await scriptAll('fcm', { as: 'QUOTA_EXCEEDED', ...retryAfter(PAUSE_SECONDS) });
  const push = await send(tenant, tokens, { time_to_live: 60 });
  const refused = await untilProbedTwice(push, 429);
  await scriptAll('fcm', {});
  const isDone = async () => (await sandbox.counts()).byChannel.fcm?.accepted === POOL_SIZE;
  await until(isDone, { timeoutMs: 30_000, everyMs: 100, what: 'FCM has all' });
  expect(refused.length).toBeLessThanOrEqual(WINDOWS.fcm + MORE);
  expect(findEarlyRetries(await sandbox.received(push.id), 429, () => PAUSE_MS)).toEqual([]);
  expect((await sandbox.counts()).duplicates).toBe(0);
});

test('recipients whose retry would be after the expiry are expired without a retry', async () => {
  const { sandbox, store } = fixture;
  const { tokens } = await registerIphones(tenant, SUBSET_SIZE);
  await scriptAll('apns', { as: 'TooManyRequests', ...retryAfter(30) });
  const push = await send(tenant, tokens, { time_to_live: 3 });
  await untilOutcomeCounts(store, push, { expired: SUBSET_SIZE });
  expect(await sandbox.received(push.id)).toHaveLength(SUBSET_SIZE);
});

test(
  'without Retry-After the pauses grow, and after a short storm a retry follows soon',
  async () => {
    const { sandbox, store } = fixture;
    const { tokens } = await registerIphones(tenant, POOL_SIZE);
    await scriptAll('apns', { as: 'TooManyRequests' });
    const push = await send(tenant, tokens);
    await until(async () => (await sandbox.counts()).requests > 0);
    await sleep(SHORT_STORM_MS);
    await scriptAll('apns', {});
    await untilOutcomeCounts(store, push, { sent: POOL_SIZE });
    const received = await sandbox.received(push.id);
    // Pauses of at least 0.5, 1, 2 and 4 s: four tries during the storm, and some for the time until its end is set.
    expect(Math.max(...countAttempts(received))).toBeLessThanOrEqual(6);
    // Guarantee G16: each recipient's own waits are below 1, 2, 4 … s, however often its batch was claimed.
    const mostMs = (times: number) => FIRST_WAIT_MS * 2 ** (times - 1) + LATE_MS;
    expect(findLateRetries(received, mostMs)).toEqual([]);
  },
  DEADLINE_MS,
);
