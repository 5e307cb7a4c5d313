import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { gatherIphones } from '../support/providers/crowd.ts';
import { untilCounts } from '../support/providers/outcomes.ts';
import { openProviderScene, type ProviderScene } from '../support/providers/scene.ts';
import { identify } from '../support/stack/processes.ts';
import { type Sent, send } from '../support/thread/pushes.ts';
import { until } from '../support/until.ts';

const IPHONES = 2_000;
const BATCHES = 2;
const KILLS = 3;
const WORKER = 'delivery-worker';
/** Requests on a line to APNs at once: nobody knows what became of those that a killed worker has sent. */
const WINDOW = 150;
/** Answers that a batch may have had without keeping them. */
const UNSAVED = 25;
const SLOW = { delayMs: 400 };
const STOPPED_MS = 20_000;
/** Work that was given back is taken up by the next look for due work. */
const TAKEN_UP_MS = 5_000;

let scene: ProviderScene;
let tenant: TestTenant;
beforeAll(async () => {
  scene = await openProviderScene();
  tenant = await scene.tenant();
});
afterEach(() => scene?.sandbox.reset());
afterAll(() => scene?.close());

async function requests(): Promise<number> {
  return (await scene.sandbox.counts()).byChannel.apns?.requests ?? 0;
}

async function sendSlowly(): Promise<Sent> {
  const { tokens } = await gatherIphones(tenant, IPHONES);
  await scene.sandbox.behave('apns', SLOW);
  const push = await send(tenant, tokens);
  await until(async () => (await requests()) > WINDOW, { everyMs: 10 });
  return push;
}

test('killed three times in the middle, it loses nothing and repeats few', async () => {
  const { stack, sandbox, store } = scene;
  const push = await sendSlowly();
  for (let kill = 0; kill < KILLS; kill += 1) {
    const before = await requests();
    await stack.waitForRestart(WORKER, stack.kill(WORKER, 'SIGKILL'));
    const isAtWork = async () => (await requests()) > before + WINDOW / 2;
    await until(isAtWork, { timeoutMs: 20_000, everyMs: 10, what: 'the worker goes on' });
  }
  await untilCounts(store, push, { sent: IPHONES });
  const { doubles } = await sandbox.counts();
  expect(doubles).toBeLessThanOrEqual(KILLS * (WINDOW + BATCHES * UNSAVED));
});

test('told to stop in the middle, it repeats nothing, and another goes on at once', async () => {
  const { stack, sandbox, store } = scene;
  const push = await sendSlowly();
  const old = stack.kill(WORKER, 'SIGTERM');
  const isGone = () => identify(old) === undefined;
  await until(isGone, { timeoutMs: STOPPED_MS, everyMs: 20, what: 'the worker has stopped' });
  const before = await requests();
  await stack.waitForRestart(WORKER, old);
  await until(async () => (await requests()) > before, { timeoutMs: TAKEN_UP_MS });
  await untilCounts(store, push, { sent: IPHONES });
  expect((await sandbox.counts()).doubles).toBe(0);
});

test('told to stop while APNs answers nothing, it ends in its time and gives all back', async () => {
  const { stack, sandbox, store } = scene;
  const { tokens } = await gatherIphones(tenant, IPHONES);
  await sandbox.behave('apns', { blackHole: true });
  const push = await send(tenant, tokens);
  await until(async () => (await requests()) >= WINDOW, { everyMs: 10 });
  await sleep(500);
  const old = stack.kill(WORKER, 'SIGTERM');
  const isGone = () => identify(old) === undefined;
  await until(isGone, { timeoutMs: STOPPED_MS, everyMs: 20, what: 'the worker has stopped' });
  expect(stack.readLog(WORKER)).not.toContain('release failed');
  await sandbox.behave('apns', { blackHole: false });
  await stack.waitForRestart(WORKER, old);
  await untilCounts(store, push, { sent: IPHONES });
  expect((await sandbox.counts()).doubles).toBe(0);
});
