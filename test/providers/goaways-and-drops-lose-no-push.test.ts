import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { SEVERAL } from '../../packages/core/src/circuit.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { registerFor, registerIphones } from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';

let fixture: ProviderFixture;
let tenant: TestTenant;
beforeAll(async () => {
  fixture = await openProviderFixture();
  tenant = await fixture.tenant({ fcm: 0 });
});
afterEach(() => fixture?.sandbox.reset());
afterAll(() => fixture?.close());

/** Sends a push to devices of a provider with a fault, and waits until it is sent to all. Returns the provider's counts. */
async function sendAll(channel: 'apns' | 'fcm' | 'web-push', n: number, faults: object) {
  const { sandbox, store } = fixture;
  const { tokens } = await registerFor(channel, tenant, sandbox, n);
  await sandbox.setFaults(channel, { ...faults });
  const push = await send(tenant, tokens);
  await untilOutcomeCounts(store, push, { sent: n });
  const { byChannel, duplicates } = await sandbox.counts();
  const { requests = 0, accepted = 0, connections = 0 } = byChannel[channel] ?? {};
  return { requests, accepted, connections, duplicates };
}

test.each([
  ['apns', 2_000, { goawayEvery: 50 }],
  ['fcm', 1_000, { dropEvery: 50 }],
  ['web-push', 300, { goawayEvery: 50 }],
] as const)('%s: each of %i pushes is sent once with %j', async (channel, n, faults) => {
  const { requests, accepted, connections, duplicates } = await sendAll(channel, n, faults);
  expect({ accepted, duplicates }).toEqual({ accepted: n, duplicates: 0 });
  if ('dropEvery' in faults) expect(requests).toBeGreaterThanOrEqual(n + n / faults.dropEvery);
  else expect(connections).toBeGreaterThan(5);
});

test.each([
  // Requests in flight to a provider share a connection.
  ['apns', 2_000, 500, 150],
  ['web-push', 300, 100, 50],
] as const)(
  '%s: all %i are sent when each request %i cuts its connection, and at most %i in flight are repeated',
  async (channel, n, dropEvery, inFlight) => {
    const { requests, duplicates } = await sendAll(channel, n, { dropEvery });
    const cuts = Math.floor(requests / dropEvery);
    expect(cuts).toBeGreaterThan(1);
    // The outcome of requests whose connection broke before their responses is unknown.
    expect(duplicates).toBeLessThanOrEqual(cuts * inFlight);
  },
);

test('a provider that broke connections gets one push, and one more at once with each answer', async () => {
  const { sandbox, store } = fixture;
  const iphones = 60;
  const other = await fixture.tenant();
  const { tokens } = await registerIphones(other, iphones);
  await sandbox.setFaults('apns', { dropEvery: 1 });
  const push = await send(other, tokens);
  const received = () => sandbox.received(push.id);
  await until(async () => (await received()).length >= SEVERAL);
  await sandbox.setFaults('apns', { dropEvery: null, delayMs: 1_000 });
  await untilOutcomeCounts(store, push, { sent: iphones });

  const times = (await received()).filter(({ status }) => status === 200).map(({ at }) => at);
  const inFlight = times.map((now) => {
    const before = times.filter((at) => at <= now);
    const answered = before.filter((at) => at + 990 <= now).length;
    expect(before.length - answered).toBeLessThanOrEqual(1 + answered);
    return before.length - answered;
  });
  expect(Math.max(...inFlight)).toBeGreaterThan(iphones / 4);
});
