import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import {
  gatherAndroids,
  gatherBrowsers,
  gatherIphones,
  type ProviderCrowd,
} from '../support/providers/crowd.ts';
import { attemptsOver } from '../support/providers/metrics.ts';
import { untilCounts } from '../support/providers/outcomes.ts';
import { apnsSecret, openProviderScene, type ProviderScene } from '../support/providers/scene.ts';
import { type SecondSandbox, startSecondSandbox } from '../support/providers/second-sandbox.ts';
import { type Sent, send } from '../support/thread/pushes.ts';
import { until } from '../support/until.ts';

const IPHONES = 2_000;
/** More than the jobs of a queue that are worked at once. */
const LONE_PUSHES = 60;
const ANDROIDS = 100;
const BROWSERS = 50;
const OTHERS = 500;
/** What nobody notices as a delay, on a machine with other work to do. */
const NORMAL_MS = 5_000;
/** How long the provider is dead at least: longer than the deadline of a request. */
const DEAD_MS = 15_000;
const WINDOW = 150;
const PROBES = 20;
/** Dead, then at rest for up to a minute more, then at work. */
const DEADLINE_MS = 120_000;

let scene: ProviderScene;
let second: SecondSandbox;
let tenant: TestTenant;
/** Another app, which reaches APNs elsewhere. */
let other: TestTenant;
let connected: MqttDevice;
let androids: ProviderCrowd;
let browsers: ProviderCrowd;
let theirs: ProviderCrowd;
beforeAll(async () => {
  [scene, second] = await Promise.all([openProviderScene(), startSecondSandbox()]);
  [tenant, other] = [await scene.tenant(), await scene.tenant()];
  await scene.keep({ app: other.app, channel: 'apns' }, apnsSecret(await second.credentials()));
  await scene.store.apps.change(tenant.app, { fcmFallbackSeconds: 0 });
  connected = await newMqttDevice(tenant.dev);
  await connected.connect();
  androids = await gatherAndroids(tenant, ANDROIDS);
  browsers = await gatherBrowsers(tenant, scene.sandbox, BROWSERS);
  theirs = await gatherIphones(other, OTHERS);
});
afterEach(() => scene?.sandbox.reset());
afterAll(async () => {
  await connected?.disconnect();
  await second?.stop();
  await scene?.close();
});

/** How each way in which APNs is dead begins; links that are there would live on, so they are cut. */
const DEATHS = {
  'takes connections and requests and answers nothing': { blackHole: true },
  'refuses every connection': { refuse: true, dropEvery: 1 },
};
const WELL = { blackHole: false, refuse: false, dropEvery: null };

describe.each(Object.entries(DEATHS))('while APNs %s', (_, death) => {
  const name = 'all others get theirs in normal time; then so do its own';
  const all = async () => {
    const iphones = await gatherIphones(tenant, IPHONES);
    const before = await attemptsOver(scene.stack, 'apns');
    await scene.sandbox.behave('apns', death);
    const startedAt = performance.now();
    const stuck = [await send(tenant, iphones.tokens)];
    for (const token of iphones.tokens.slice(0, LONE_PUSHES)) stuck.push(await send(tenant, token));

    for (let round = 0; round < 3; round += 1) {
      expect(Math.max(...(await timesOfOthers(iphones.tokens)))).toBeLessThan(NORMAL_MS);
    }
    await sleep(Math.max(0, DEAD_MS - (performance.now() - startedAt)));
    const attempts = (await attemptsOver(scene.stack, 'apns')) - before - 3 * OTHERS;
    expect(attempts).toBeLessThanOrEqual(WINDOW + PROBES);
    expect((await scene.sandbox.counts()).byChannel.apns?.accepted).toBe(0);

    await scene.sandbox.behave('apns', WELL);
    await untilCounts(scene.store, stuck[0] as Sent, { sent: IPHONES });
    for (const push of stuck.slice(1)) await untilCounts(scene.store, push, { sent: 1 });
    expect((await scene.sandbox.counts()).doubles).toBe(0);
  };
  test(name, all, DEADLINE_MS);
});

/** Sends over all other ways at once, one push of them to iPhones too; milliseconds until each has arrived. */
function timesOfOthers(iphones: readonly string[]): Promise<number[]> {
  const { sandbox, store } = scene;
  const arrived = connected.arrivals.length;
  const mixed = [connected.token, ...browsers.tokens, ...iphones.slice(0, BROWSERS)];
  const hasSent = async (push: Sent, addresses: readonly string[]) => {
    const wanted = new Set(addresses);
    const received = await sandbox.received(push.id);
    return received.filter(({ to }) => wanted.has(to)).length >= addresses.length;
  };
  return Promise.all([
    timed(async () => {
      const push = await send(tenant, mixed);
      await connected.waitFor(arrived + 1);
      await until(() => hasSent(push, browsers.addresses));
    }),
    timed(async () => {
      const push = await send(tenant, androids.tokens);
      await until(() => hasSent(push, androids.addresses));
    }),
    timed(async () => {
      const push = await send(other, theirs.tokens);
      await untilCounts(store, push, { sent: OTHERS });
    }),
  ]);
}

async function timed(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}
