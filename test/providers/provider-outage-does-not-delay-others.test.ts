import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { type Sent, send } from '../support/end-to-end/pushes.ts';
import { measureLag } from '../support/lag.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import {
  type ProviderDevicePool,
  registerAndroidsByFcm,
  registerBrowsers,
  registerIphones,
} from '../support/providers/provider-device-pool.ts';
import { createApnsSecret } from '../support/providers/sandbox.ts';
import { type OwnSandbox, startOwnSandbox } from '../support/providers/sandbox-process.ts';
import { until } from '../support/until.ts';

const IPHONES = 2_000;
/** More than the jobs of a queue that are processed at once. */
const LONE_PUSHES = 60;
const ANDROIDS = 100;
const BROWSERS = 50;
const OTHERS = 500;
/** Less than the deadline of a request to the provider, behind which others could wait. */
const NORMAL_MS = 5_000;
/** How long the provider is dead at least: longer than the deadline of a request. */
const DEAD_MS = 15_000;
const WINDOW = 150;
const PROBES = 20;
/** Unavailable, then with an open circuit for up to a minute more, then working. */
const DEADLINE_MS = 120_000;

let fixture: ProviderFixture;
let second: OwnSandbox;
let tenant: TestTenant;
/** Another app, which reaches APNs elsewhere. */
let other: TestTenant;
let connected: MqttDevice;
let androids: ProviderDevicePool;
let browsers: ProviderDevicePool;
let otherDevices: ProviderDevicePool;
beforeAll(async () => {
  second = await startOwnSandbox();
  fixture = await openProviderFixture();
  [tenant, other] = [await fixture.tenant(), await fixture.tenant()];
  await fixture.saveCredential(
    { app: other.app, channel: 'apns' },
    createApnsSecret(await second.credentials()),
  );
  await fixture.store.apps.updateSettings(tenant.app, { fcm: 0 });
  connected = await newMqttDevice(tenant.dev);
  await connected.connect();
  androids = await registerAndroidsByFcm(tenant, ANDROIDS);
  browsers = await registerBrowsers(tenant, fixture.sandbox, BROWSERS);
  otherDevices = await registerIphones(other, OTHERS);
});
afterEach(() => fixture?.sandbox.reset());
afterAll(async () => {
  await connected?.disconnect();
  await second?.stop();
  await fixture?.close();
});

/** The faults of APNs; open connections would keep working, so they are cut. */
const OUTAGES = {
  'accepts connections and requests and sends no response': { blackHole: true },
  'refuses every connection': { refuse: true, dropEvery: 1 },
};
const NO_FAULTS = { blackHole: false, refuse: false, dropEvery: null };

describe.each(Object.entries(OUTAGES))('while APNs %s', (_, outage) => {
  const name = 'all others get theirs in normal time; then so do its own';
  const all = async () => {
    const iphones = await registerIphones(tenant, IPHONES);
    const before = await countAttempts();
    await fixture.sandbox.setFaults('apns', outage);
    const startedAt = performance.now();
    const stuck = [await send(tenant, iphones.tokens)];
    for (const token of iphones.tokens.slice(0, LONE_PUSHES)) stuck.push(await send(tenant, token));

    const mixed: Sent[] = [];
    const lag = measureLag();
    for (let round = 0; round < 3; round += 1) {
      const latencies = await latenciesOfOthers(iphones.tokens, mixed);
      expect(Math.max(...latencies)).toBeLessThan(NORMAL_MS + 3 * lag.read());
    }
    lag.stop();
    await sleep(Math.max(0, DEAD_MS - (performance.now() - startedAt)));
    const attempts = (await countAttempts()) - before - 3 * OTHERS;
    expect(attempts).toBeLessThanOrEqual(WINDOW + PROBES);
    for (const { id } of [...stuck, ...mixed]) {
      const received = await fixture.sandbox.received(id);
      expect(received.filter(({ channel, status }) => channel === 'apns' && status)).toEqual([]);
    }

    await fixture.sandbox.setFaults('apns', NO_FAULTS);
    await untilOutcomeCounts(fixture.store, stuck[0] as Sent, { sent: IPHONES });
    for (const push of stuck.slice(1)) await untilOutcomeCounts(fixture.store, push, { sent: 1 });
    // The next outage begins with nothing left of this one.
    const ends = { delivered: 1, sent: 2 * BROWSERS };
    for (const push of mixed) await untilOutcomeCounts(fixture.store, push, ends);
    expect((await fixture.sandbox.counts()).duplicates).toBe(0);
  };
  test(name, all, DEADLINE_MS);
});

/** Counts the attempts over APNs that the delivery-workers have made, with or without a response. */
async function countAttempts(): Promise<number> {
  const line = /^carillon_provider_answers_total\{[^}]*channel="apns".* (\d+)$/gm;
  const workers = fixture.stack.dev.processes.filter(
    ({ service }) => service === 'delivery-worker',
  );
  const texts = workers.map(async ({ ops }) => (await fetch(`${ops}/metrics`)).text());
  const values = (await Promise.all(texts)).flatMap((text) => [...text.matchAll(line)]);
  return values.reduce((sum, [, value]) => sum + Number(value), 0);
}

/**
 * Sends over all other ways at once, one push of them to iPhones too; milliseconds until each has arrived.
 *
 * @param mixedPushes gets the push that is to iPhones too
 */
function latenciesOfOthers(iphones: readonly string[], mixedPushes: Sent[]): Promise<number[]> {
  const { sandbox, store } = fixture;
  const arrived = connected.arrivals.length;
  const mixed = [connected.token, ...browsers.tokens, ...iphones.slice(0, BROWSERS)];
  const hasSent = async (push: Sent, addresses: readonly string[]) => {
    const expected = new Set(addresses);
    const received = await sandbox.received(push.id);
    return received.filter(({ to }) => expected.has(to)).length >= addresses.length;
  };
  return Promise.all([
    timed(async () => {
      const push = await send(tenant, mixed);
      mixedPushes.push(push);
      await connected.waitFor(arrived + 1);
      await until(() => hasSent(push, browsers.addresses));
    }),
    timed(async () => {
      const push = await send(tenant, androids.tokens);
      await untilOutcomeCounts(store, push, { sent: ANDROIDS });
    }),
    timed(async () => {
      const push = await send(other, otherDevices.tokens);
      await untilOutcomeCounts(store, push, { sent: OTHERS });
    }),
  ]);
}

async function timed(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}
