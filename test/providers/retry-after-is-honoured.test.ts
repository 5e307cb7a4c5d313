import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { SEVERAL } from '../../packages/core/src/circuit.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { type Sent, send } from '../support/end-to-end/pushes.ts';
import { measureLag } from '../support/lag.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { registerFor, registerIphones } from '../support/providers/provider-device-pool.ts';
import type { Received } from '../support/providers/sandbox.ts';
import { until } from '../support/until.ts';

const POOL_SIZE = 500;
const PAUSE_MS = 3_000;
const RETRY_AFTER = { headers: { 'retry-after': '3' } };
/** Requests that may be in flight to APNs, and to FCM. */
const WINDOWS = { apns: 150, fcm: 100 };
/** Requests that take the place of those whose answers are not enough yet to stop all, and a probe for each pause. */
const MORE = SEVERAL - 1 + 2;
/** Responses to requests that were in flight when the first one arrived. */
const UNDER_WAY_MS = 1_000;
const SHORT_STORM_MS = 6_000;
const FIRST_WAIT_MS = 1_000;
/** Until due batches are claimed. */
const LATE_MS = 4_000;

let fixture: ProviderFixture;
let tenant: TestTenant;
beforeAll(async () => {
  fixture = await openProviderFixture();
  tenant = await fixture.tenant({ fcm: 0 });
});
afterEach(() => fixture?.sandbox.reset());
afterAll(() => fixture?.close());

/** Scripts the response to all addresses of a channel from now on. */
const scriptAll = (channel: string, response: object) =>
  fixture.sandbox.scriptPermanently(channel, '*', { ...response });

/** Returns the intervals between the requests to each address, with the number of requests before. */
function listRetries(received: readonly Received[]) {
  return [...Map.groupBy(received, ({ to }) => to).values()].flatMap((requests) =>
    requests.slice(1).map(({ at }, index) => {
      const before = requests[index] as Received;
      return { times: index + 1, status: before.status, afterMs: at - before.at };
    }),
  );
}

/** Expects each retry after a response with that status to be no sooner than it requested. */
async function expectNoEarlyRetry({ id }: Sent, status: number): Promise<void> {
  const retries = listRetries(await fixture.sandbox.received(id));
  expect(
    retries.filter((retry) => retry.status === status && retry.afterMs < PAUSE_MS).slice(0, 5),
  ).toEqual([]);
}

/**
 * Waits until the provider got a request after each of two pauses: had one of them not been kept, its requests would be
 * there. Returns all requests that got this status.
 */
async function untilProbedTwice({ id }: Sent, status: number): Promise<Received[]> {
  const areProbed = async () => {
    const rejected = (await fixture.sandbox.received(id)).filter((one) => one.status === status);
    const pauseFrom = (rejected[0]?.at ?? 0) + UNDER_WAY_MS;
    return rejected.filter(({ at }) => at > pauseFrom).length >= 2 && rejected;
  };
  const what = 'a probe after each of two pauses';
  return until(areProbed, { timeoutMs: 60_000, everyMs: 100, what });
}

test('each recipient is retried no sooner than its response requested', async () => {
  const { tokens } = await registerIphones(tenant, POOL_SIZE);
  await scriptAll('apns', { as: 'TooManyRequests', ...RETRY_AFTER });
  const push = await send(tenant, tokens);
  await until(async () => (await fixture.sandbox.counts()).requests >= POOL_SIZE);
  await scriptAll('apns', {});
  await untilOutcomeCounts(fixture.store, push, { sent: POOL_SIZE });
  await expectNoEarlyRetry(push, 429);
});

test.each([
  ['apns', 'ServiceUnavailable', 503],
  ['fcm', 'QUOTA_EXCEEDED', 429],
] as const)('%s: the pause of %s applies to all', async (channel, as, status) => {
  const { sandbox, store } = fixture;
  const { tokens } = await registerFor(channel, tenant, sandbox, POOL_SIZE);
  await scriptAll(channel, { as, ...RETRY_AFTER });
  const lag = measureLag();
  const push = await send(tenant, tokens);
  const rejected = await untilProbedTwice(push, status);
  const firstAt = rejected[0]?.at ?? 0;
  const pausedFrom = firstAt + UNDER_WAY_MS + 3 * lag.stop();
  // Each recipient over FCM is paused by its own response too, of one that was under way.
  if (channel === 'apns')
    expect(rejected.filter(({ at }) => at > pausedFrom && at < firstAt + PAUSE_MS).length).toBe(0);
  await scriptAll(channel, {});
  const isDone = async () => (await sandbox.counts()).byChannel[channel]?.accepted === POOL_SIZE;
  await until(isDone, { timeoutMs: 60_000, everyMs: 100, what: 'the provider has all' });
  await untilOutcomeCounts(store, push, { sent: POOL_SIZE });
  expect(rejected.length).toBeLessThanOrEqual(WINDOWS[channel] + MORE);
  await expectNoEarlyRetry(push, status);
  expect((await sandbox.counts()).duplicates).toBe(0);
});

test('recipients whose retry would be after the expiry are expired without a retry', async () => {
  const { sandbox, store } = fixture;
  const { tokens } = await registerIphones(tenant, 50);
  await scriptAll('apns', { as: 'TooManyRequests', headers: { 'retry-after': '30' } });
  const push = await send(tenant, tokens, { time_to_live: 3 });
  await untilOutcomeCounts(store, push, { expired: tokens.length });
  expect(await sandbox.received(push.id)).toHaveLength(tokens.length);
});

test('without Retry-After the pauses grow, and after a short storm a retry follows soon', async () => {
  const { sandbox, store } = fixture;
  const { tokens } = await registerIphones(tenant, POOL_SIZE);
  await scriptAll('apns', { as: 'TooManyRequests' });
  const push = await send(tenant, tokens);
  await until(async () => (await sandbox.counts()).requests > 0);
  const lag = measureLag();
  await sleep(SHORT_STORM_MS);
  await scriptAll('apns', {});
  await untilOutcomeCounts(store, push, { sent: POOL_SIZE });
  const received = await sandbox.received(push.id);
  // Pauses of at least 0.5, 1, 2 and 4 s: four tries during the storm, and some for the time until its end is set.
  const retries = listRetries(received);
  expect(Math.max(...retries.map(({ times }) => times))).toBeLessThan(6);
  // Guarantee G16: each recipient's own waits are below 1, 2, 4 … s, however often its batch was claimed.
  const lateMs = LATE_MS + 3 * lag.stop();
  const maxMs = (times: number) => FIRST_WAIT_MS * 2 ** (times - 1) + lateMs;
  expect(retries.filter(({ times, afterMs }) => afterMs > maxMs(times))).toEqual([]);
});
