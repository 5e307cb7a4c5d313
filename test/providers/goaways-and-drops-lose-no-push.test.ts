import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import {
  registerAndroids,
  registerBrowsers,
  registerIphones,
} from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';

const IPHONES = 2_000;
const ANDROIDS = 1_000;
const BROWSERS = 300;
/** A provider misbehaves at each such request. */
const REQUESTS_PER_GOAWAY = 50;
const REQUESTS_PER_DROP = 100;
const REQUESTS_PER_RARE_DROP = 500;
/** Requests in flight to a provider: over HTTP/2 they share a connection. */
const WINDOWS = { apns: 150, webPush: 50 };
/** Android's outcomes are known when the push ends: it could have arrived over MQTT until then. */
const ANDROID_SECONDS = 15;

let fixture: ProviderFixture;
let tenant: TestTenant;
beforeAll(async () => {
  fixture = await openProviderFixture();
  tenant = await fixture.tenant({ fcmFallbackSeconds: 0 });
});
afterEach(() => fixture?.sandbox.reset());
afterAll(() => fixture?.close());

test('APNs sends GOAWAY on every connection after 50 requests: each push is sent once', async () => {
  const { tokens } = await registerIphones(tenant, IPHONES);
  await fixture.sandbox.setFaults('apns', { goawayEvery: REQUESTS_PER_GOAWAY });
  const push = await send(tenant, tokens);
  await untilOutcomeCounts(fixture.store, push, { sent: IPHONES });
  const { byChannel, duplicates } = await fixture.sandbox.counts();
  expect(duplicates).toBe(0);
  expect(byChannel.apns?.accepted).toBe(IPHONES);
  expect(byChannel.apns?.connections).toBeGreaterThan(5);
});

test('APNs cuts a connection at every 500th request: all is sent, and only requests in flight may be repeated', async () => {
  const { tokens } = await registerIphones(tenant, IPHONES);
  await fixture.sandbox.setFaults('apns', { dropEvery: REQUESTS_PER_RARE_DROP });
  const push = await send(tenant, tokens);
  await untilOutcomeCounts(fixture.store, push, { sent: IPHONES });
  const { byChannel, duplicates } = await fixture.sandbox.counts();
  // The outcome of requests whose connection broke before their responses is unknown.
  const cuts = Math.floor((byChannel.apns?.requests ?? 0) / REQUESTS_PER_RARE_DROP);
  expect(duplicates).toBeLessThanOrEqual(cuts * WINDOWS.apns);
});

test('FCM cuts the connection at every 50th request: each push is sent once', async () => {
  const { tokens } = await registerAndroids(tenant, ANDROIDS);
  await fixture.sandbox.setFaults('fcm', { dropEvery: REQUESTS_PER_GOAWAY });
  const push = await send(tenant, tokens, { time_to_live: ANDROID_SECONDS });
  await until(async () => (await fixture.sandbox.counts()).byChannel.fcm?.accepted === ANDROIDS, {
    timeoutMs: (ANDROID_SECONDS - 2) * 1_000,
    everyMs: 200,
    what: 'FCM has all',
  });
  await untilOutcomeCounts(fixture.store, push, { sent: ANDROIDS });
  const { byChannel, duplicates } = await fixture.sandbox.counts();
  expect(duplicates).toBe(0);
  expect(byChannel.fcm?.accepted).toBe(ANDROIDS);
  expect(byChannel.fcm?.requests).toBeGreaterThanOrEqual(ANDROIDS + ANDROIDS / REQUESTS_PER_GOAWAY);
});

test('a Web Push service sends GOAWAY on every connection after 50 requests: each push is sent once', async () => {
  const { tokens } = await registerBrowsers(tenant, fixture.sandbox, BROWSERS);
  await fixture.sandbox.setFaults('web-push', { goawayEvery: REQUESTS_PER_GOAWAY });
  const push = await send(tenant, tokens);
  await untilOutcomeCounts(fixture.store, push, { sent: BROWSERS });
  const { byChannel, duplicates } = await fixture.sandbox.counts();
  expect(duplicates).toBe(0);
  expect(byChannel['web-push']?.accepted).toBe(BROWSERS);
  expect(byChannel['web-push']?.connections).toBeGreaterThan(5);
});

test('a Web Push service cuts a connection at every 100th request: all is sent, and only requests in flight may be repeated', async () => {
  const { tokens } = await registerBrowsers(tenant, fixture.sandbox, BROWSERS);
  await fixture.sandbox.setFaults('web-push', { dropEvery: REQUESTS_PER_DROP });
  const push = await send(tenant, tokens);
  await untilOutcomeCounts(fixture.store, push, { sent: BROWSERS }, { timeoutMs: 50_000 });
  const { byChannel, duplicates } = await fixture.sandbox.counts();
  const cuts = Math.floor((byChannel['web-push']?.requests ?? 0) / REQUESTS_PER_DROP);
  expect(cuts).toBeGreaterThan(1);
  expect(duplicates).toBeLessThanOrEqual(cuts * WINDOWS.webPush);
});
