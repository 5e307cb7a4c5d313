import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { runCarillonJson } from '../support/carillon.ts';
import { type Sent, send } from '../support/end-to-end/pushes.ts';
import { measureLag } from '../support/lag.ts';
import {
  openProviderFixture,
  type ProviderFixture,
  WEB_PUSH_PAIR_WITHOUT_CONTACT,
} from '../support/providers/fixture.ts';
import { untilFinal, untilOutcomeCounts } from '../support/providers/outcomes.ts';
import {
  type ProviderDevicePool,
  registerAndroidsByFcm,
  registerBrowsers,
  registerIphones,
} from '../support/providers/provider-device-pool.ts';
import { createApnsSecret } from '../support/providers/sandbox.ts';
import { until } from '../support/until.ts';

const IPHONES = 1_000;
const ANDROIDS = 500;
const BROWSERS = 100;
const SUBSET_SIZE = 50;
/** Slow enough for something to happen in the middle of a run. */
const SLOW = { delayMs: 300 };
const WINDOW = 150;
/** Interval of the probes of a circuit that a refused credential has opened. */
const PROBE_INTERVAL_MS = 60_000;
/** For Web Push a signature of less than a minute isn't taken for an old one: the circuit is open for a minute first. */
const DEADLINE_MS = 110_000;
/** A new credential is in use within seconds, not only with the next probe of a circuit that is open for a minute. */
const SECONDS_MS = 10_000;
/** Pushes that are sent while the credential is refused, to see that the provider gets none of them. */
const FURTHER_PUSHES = 8;

let fixture: ProviderFixture;
let tenant: TestTenant;
beforeAll(async () => {
  fixture = await openProviderFixture();
  tenant = await fixture.tenant({ fcm: 0 });
});
afterEach(() => fixture?.sandbox.reset());
afterAll(() => fixture?.close());

function requestsOf(push: Sent): Promise<number> {
  return fixture.sandbox.received(push.id).then((received) => received.length);
}

/** Sends, and waits until a provider is in the middle of it. */
async function untilMidRun(channel: string, pool: ProviderDevicePool): Promise<Sent> {
  await fixture.sandbox.setFaults(channel, SLOW);
  const push = await send(tenant, pool.tokens);
  await until(async () => (await requestsOf(push)) > 0);
  return push;
}

test(
  'access tokens of FCM and signatures for push services that expire in the middle are replaced',
  async () => {
    const { sandbox, store } = fixture;
    const androids = await registerAndroidsByFcm(tenant, ANDROIDS);
    const browsers = await registerBrowsers(tenant, sandbox, BROWSERS);
    const began = await Promise.all([
      untilMidRun('fcm', androids),
      untilMidRun('web-push', browsers),
    ]);
    for (const channel of ['fcm', 'web-push'])
      await sandbox.setFaults(channel, { expireTokens: true });
    for (const [index, sent] of [ANDROIDS, BROWSERS].entries()) {
      await untilOutcomeCounts(store, began[index] as Sent, { sent }, { timeoutMs: DEADLINE_MS });
    }
    expect((await sandbox.counts()).duplicates).toBe(0);
  },
  DEADLINE_MS,
);

interface Listed {
  id: string;
  refused?: { detail: string };
}

async function credentialErrorOf(id: string): Promise<string | undefined> {
  const args = ['credential', 'list', '--app', tenant.app];
  const listed = await runCarillonJson<Listed[]>(fixture.stack.home, ...args);
  return listed.find((one) => one.id === id)?.refused?.detail;
}

/** As an operator does who has got a new key from Apple. */
async function setKey(): Promise<void> {
  const { ca, apns } = fixture.credentials;
  const [key, caFile] = [
    join(fixture.stack.home, 'new.p8'),
    join(fixture.stack.home, 'new-ca.pem'),
  ];
  writeFileSync(key, apns.key);
  writeFileSync(caFile, ca);
  const gateway = ['--gateway', `${apns.host}:${apns.port}`, '--gateway-ca', caFile];
  const ids = ['--key-id', apns.keyId, '--team-id', apns.teamId];
  const which = ['--app', tenant.app, '--key', key];
  await runCarillonJson(fixture.stack.home, 'credential', 'apns', ...which, ...ids, ...gateway);
}

/** Sends to one device again and again until it is stopped, which returns what was sent. */
function sendContinuously(token: string) {
  let isStopped = false;
  const pushes: Sent[] = [];
  const sending = (async () => {
    while (!isStopped) {
      pushes.push(await send(tenant, token));
      await sleep(500);
    }
  })();
  return {
    count: () => pushes.length,
    async stop(): Promise<Sent[]> {
      isStopped = true;
      await sending;
      return pushes;
    },
  };
}

test('a credential refused during a push fails no recipient, and a valid one is in use within seconds', async () => {
  const { sandbox, store } = fixture;
  const id = `${tenant.app}:apns`;
  const pool = await registerIphones(tenant, IPHONES);
  const [first = ''] = pool.tokens;
  // If the provider token has expired without having been used since, it is replaced before anything is counted.
  await untilFinal(store, await send(tenant, first), first);
  const push = await untilMidRun('apns', pool);
  const refusedSince = performance.now();
  await sandbox.setFaults('apns', { refuseCredential: true });
  const sender = sendContinuously(first);
  expect(await until(() => credentialErrorOf(id), { timeoutMs: 60_000 })).toBe(
    '403 InvalidProviderToken',
  );

  const refusals = async () => (await sandbox.counts()).byChannel.apns?.requests ?? 0;
  const [before, countedSince] = [await refusals(), performance.now()];
  const goal = sender.count() + FURTHER_PUSHES;
  await until(() => sender.count() >= goal, { what: 'further pushes while the circuit is open' });
  // The probes, and the requests in flight when it was refused.
  const probesMeanwhile = Math.ceil((performance.now() - countedSince) / PROBE_INTERVAL_MS);
  expect((await refusals()) - before).toBeLessThanOrEqual(probesMeanwhile);
  const refused = (await sandbox.received(push.id)).filter(({ status }) => status === 403);
  const probes = Math.ceil((performance.now() - refusedSince) / PROBE_INTERVAL_MS);
  expect(refused.length).toBeLessThanOrEqual(WINDOW + probes);
  const { outcomes = {} } = (await store.deliveryStatus.statusOfPush(push.id)) ?? {};
  expect(Object.keys(outcomes).filter((outcome) => !['sent', 'pending'].includes(outcome))).toEqual(
    [],
  );

  await sandbox.setFaults('apns', { refuseCredential: false, delayMs: 0 });
  await setKey();
  const startedAt = performance.now();
  const lag = measureLag();
  await untilOutcomeCounts(store, push, { sent: IPHONES });
  for (const lone of await sender.stop()) await untilOutcomeCounts(store, lone, { sent: 1 });
  expect(performance.now() - startedAt - 3 * lag.stop()).toBeLessThan(SECONDS_MS);
  expect(await credentialErrorOf(id)).toBeUndefined();
  expect((await sandbox.counts()).duplicates).toBe(0);
});

test('pushes that Apple refuses for lack of a contact are sent once the app has one', async () => {
  const { sandbox, store } = fixture;
  const id = `${tenant.app}:web-push`;
  const browsers = await registerBrowsers(tenant, sandbox, SUBSET_SIZE);
  await sandbox.setFaults('web-push', { checkContact: true });
  await fixture.saveCredential(
    { app: tenant.app, channel: 'web-push' },
    WEB_PUSH_PAIR_WITHOUT_CONTACT,
  );
  // The API sees it within seconds.
  const [one = ''] = browsers.tokens;
  await until(async () => (await send(tenant, one)).info.warnings?.[0]?.includes('Safari'));
  const push = await send(tenant, browsers.tokens);
  const detail = await until(() => credentialErrorOf(id), { timeoutMs: 60_000 });
  expect(detail).toMatch(
    /^403 .*BadJwtToken.* likely because of the contact mailto:push@carillon\.inv/,
  );
  const contact = ['--contact', 'mailto:ops@mail.net'];
  await runCarillonJson(
    fixture.stack.home,
    'credential',
    'web-push',
    '--app',
    tenant.app,
    ...contact,
  );
  await untilOutcomeCounts(store, push, { sent: SUBSET_SIZE });
  expect(await credentialErrorOf(id)).toBeUndefined();
});

test('without the removed credential the remaining recipients fail with the reason', async () => {
  const pool = await registerIphones(tenant, SUBSET_SIZE);
  const headers = { 'retry-after': '2' };
  await fixture.sandbox.scriptPermanently('apns', '*', { as: 'ServiceUnavailable', headers });
  const push = await send(tenant, pool.tokens);
  await until(async () => (await requestsOf(push)) > 0);
  await runCarillonJson(fixture.stack.home, 'credential', 'remove', 'apns', '--app', tenant.app);
  await untilOutcomeCounts(fixture.store, push, { failed: SUBSET_SIZE });
  expect(await untilFinal(fixture.store, push, pool.tokens[0] ?? '')).toEqual({
    outcome: 'failed',
    reason: 'channel-not-configured',
  });
});

test("devices of Apple's other environment fail until it has a credential of its own", async () => {
  const { app } = tenant;
  await fixture.saveCredential(
    { app, channel: 'apns', environment: 'production' },
    createApnsSecret(fixture.credentials),
  );
  const [ours, theirs] = [
    await registerIphones(tenant, SUBSET_SIZE, 'production'),
    await registerIphones(tenant, SUBSET_SIZE, 'development'),
  ];
  const push = await send(tenant, [...ours.tokens, ...theirs.tokens]);
  const ends = { sent: SUBSET_SIZE, failed: SUBSET_SIZE };
  await untilOutcomeCounts(fixture.store, push, ends);
  expect(await untilFinal(fixture.store, push, theirs.tokens[0] ?? '')).toEqual({
    outcome: 'failed',
    reason: 'wrong-credential',
  });

  const secret = createApnsSecret(fixture.credentials);
  await fixture.saveCredential({ app, channel: 'apns', environment: 'development' }, secret);
  // A push that is accepted after its credential was saved does not fail for lack of it.
  const next = await send(tenant, theirs.tokens);
  await untilOutcomeCounts(fixture.store, next, { sent: SUBSET_SIZE });
});
