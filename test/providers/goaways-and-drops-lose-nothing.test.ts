import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { gatherAndroids, gatherBrowsers, gatherIphones } from '../support/providers/crowd.ts';
import { untilCounts } from '../support/providers/outcomes.ts';
import { openProviderScene, type ProviderScene } from '../support/providers/scene.ts';
import { send } from '../support/thread/pushes.ts';
import { until } from '../support/until.ts';

const IPHONES = 2_000;
const ANDROIDS = 1_000;
const BROWSERS = 300;
/** A provider misbehaves at each such request. */
const EVERY = 50;
const SOMETIMES = 100;
const SELDOM = 500;
/** Requests on a line at once: over HTTP/2 they share a link. */
const WINDOWS = { apns: 150, webPush: 50 };
/** Android's outcomes are known when the push ends: its own link could have brought it until then. */
const ANDROID_SECONDS = 15;

let scene: ProviderScene;
let tenant: TestTenant;
beforeAll(async () => {
  scene = await openProviderScene();
  tenant = await scene.tenant();
  await scene.store.apps.change(tenant.app, { fcmFallbackSeconds: 0 });
});
afterEach(() => scene?.sandbox.reset());
afterAll(() => scene?.close());

test('APNs says goodbye to every link after 50 requests: all is sent, and nothing twice', async () => {
  const { tokens } = await gatherIphones(tenant, IPHONES);
  await scene.sandbox.behave('apns', { goawayEvery: EVERY });
  const push = await send(tenant, tokens);
  await untilCounts(scene.store, push, { sent: IPHONES });
  const { byChannel, doubles } = await scene.sandbox.counts();
  expect(doubles).toBe(0);
  expect(byChannel.apns?.accepted).toBe(IPHONES);
  expect(byChannel.apns?.connections).toBeGreaterThan(5);
});

test('APNs cuts a link at every 500th request: all is sent, and only what was under way may come twice', async () => {
  const { tokens } = await gatherIphones(tenant, IPHONES);
  await scene.sandbox.behave('apns', { dropEvery: SELDOM });
  const push = await send(tenant, tokens);
  await untilCounts(scene.store, push, { sent: IPHONES });
  const { byChannel, doubles } = await scene.sandbox.counts();
  // Nobody knows what became of requests whose link broke before their answers came.
  const cuts = Math.floor((byChannel.apns?.requests ?? 0) / SELDOM);
  expect(doubles).toBeLessThanOrEqual(cuts * WINDOWS.apns);
});

test('FCM cuts the link at every 50th request: all is sent, and nothing twice', async () => {
  const { tokens } = await gatherAndroids(tenant, ANDROIDS);
  await scene.sandbox.behave('fcm', { dropEvery: EVERY });
  const push = await send(tenant, tokens, { time_to_live: ANDROID_SECONDS });
  await until(async () => (await scene.sandbox.counts()).byChannel.fcm?.accepted === ANDROIDS, {
    timeoutMs: (ANDROID_SECONDS - 2) * 1_000,
    everyMs: 200,
    what: 'FCM has all',
  });
  await untilCounts(scene.store, push, { sent: ANDROIDS });
  const { byChannel, doubles } = await scene.sandbox.counts();
  expect(doubles).toBe(0);
  expect(byChannel.fcm?.accepted).toBe(ANDROIDS);
  expect(byChannel.fcm?.requests).toBeGreaterThanOrEqual(ANDROIDS + ANDROIDS / EVERY);
});

test('a Web Push service says goodbye to every link after 50 requests: all is sent, and nothing twice', async () => {
  const { tokens } = await gatherBrowsers(tenant, scene.sandbox, BROWSERS);
  await scene.sandbox.behave('web-push', { goawayEvery: EVERY });
  const push = await send(tenant, tokens);
  await untilCounts(scene.store, push, { sent: BROWSERS });
  const { byChannel, doubles } = await scene.sandbox.counts();
  expect(doubles).toBe(0);
  expect(byChannel['web-push']?.accepted).toBe(BROWSERS);
  expect(byChannel['web-push']?.connections).toBeGreaterThan(5);
});

test('a Web Push service cuts a link at every 100th request: all is sent, and only what was under way may come twice', async () => {
  const { tokens } = await gatherBrowsers(tenant, scene.sandbox, BROWSERS);
  await scene.sandbox.behave('web-push', { dropEvery: SOMETIMES });
  const push = await send(tenant, tokens);
  await untilCounts(scene.store, push, { sent: BROWSERS }, { timeoutMs: 50_000 });
  const { byChannel, doubles } = await scene.sandbox.counts();
  const cuts = Math.floor((byChannel['web-push']?.requests ?? 0) / SOMETIMES);
  expect(cuts).toBeGreaterThan(1);
  expect(doubles).toBeLessThanOrEqual(cuts * WINDOWS.webPush);
});
