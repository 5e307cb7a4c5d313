import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { askCarillon } from '../support/carillon.ts';
import {
  gatherAndroids,
  gatherBrowsers,
  gatherIphones,
  type ProviderCrowd,
} from '../support/providers/crowd.ts';
import { untilCounts, untilEnded } from '../support/providers/outcomes.ts';
import { apnsSecret, openProviderScene, type ProviderScene } from '../support/providers/scene.ts';
import { type Sent, send } from '../support/thread/pushes.ts';
import { until } from '../support/until.ts';

const IPHONES = 1_000;
const ANDROIDS = 500;
const BROWSERS = 100;
const SOME = 50;
/** Slow enough for something to happen in the middle of a run. */
const SLOW = { delayMs: 300 };
const WINDOW = 150;
const CHANNELS = ['apns', 'fcm', 'web-push'] as const;
/** Android's outcomes are known when the push ends. */
const ANDROID = { time_to_live: 20 };
/** For Web Push a signature of less than a minute isn't taken for an old one: the line rests for a minute first. */
const PATIENT_MS = 110_000;
/** A good credential is in use by then. */
const SECONDS_MS = 10_000;

let scene: ProviderScene;
let tenant: TestTenant;
beforeAll(async () => {
  scene = await openProviderScene();
  tenant = await scene.tenant();
  await scene.store.apps.change(tenant.app, { fcmFallbackSeconds: 0 });
});
afterEach(() => scene?.sandbox.reset());
afterAll(() => scene?.close());

function requestsOf(push: Sent): Promise<number> {
  return scene.sandbox.received(push.id).then((received) => received.length);
}

/** Sends, and waits until a provider is in the middle of it. */
async function untilMidRun(channel: string, crowd: ProviderCrowd, fields = {}): Promise<Sent> {
  await scene.sandbox.behave(channel, SLOW);
  const push = await send(tenant, crowd.tokens, fields);
  await until(async () => (await requestsOf(push)) > 0);
  return push;
}

test(
  'tokens of all providers that expire in the middle are replaced',
  async () => {
    const { sandbox, store } = scene;
    const iphones = await gatherIphones(tenant, IPHONES);
    const androids = await gatherAndroids(tenant, ANDROIDS);
    const browsers = await gatherBrowsers(tenant, sandbox, BROWSERS);
    const began = await Promise.all([
      untilMidRun('apns', iphones),
      untilMidRun('fcm', androids, ANDROID),
      untilMidRun('web-push', browsers),
    ]);
    for (const channel of CHANNELS) await sandbox.behave(channel, { expireTokens: true });
    for (const [index, sent] of [IPHONES, ANDROIDS, BROWSERS].entries()) {
      await untilCounts(store, began[index] as Sent, { sent }, { timeoutMs: PATIENT_MS });
    }
    expect((await sandbox.counts()).doubles).toBe(0);
  },
  PATIENT_MS,
);

interface Listed {
  id: string;
  refused?: { detail: string };
}

async function refusalOf(id: string): Promise<string | undefined> {
  const args = ['credential', 'list', '--app', tenant.app];
  const listed = await askCarillon<Listed[]>(scene.stack.home, ...args);
  return listed.find((one) => one.id === id)?.refused?.detail;
}

/** As an operator does who has got a new key from Apple. */
async function setKey(): Promise<void> {
  const { ca, apns } = scene.credentials;
  const [key, caFile] = [join(scene.stack.home, 'new.p8'), join(scene.stack.home, 'new-ca.pem')];
  writeFileSync(key, apns.key);
  writeFileSync(caFile, ca);
  const gateway = ['--gateway', `${apns.host}:${apns.port}`, '--gateway-ca', caFile];
  const ids = ['--key-id', apns.keyId, '--team-id', apns.teamId];
  const which = ['--app', tenant.app, '--key', key];
  await askCarillon(scene.stack.home, 'credential', 'apns', ...which, ...ids, ...gateway);
}

/** Sends to one device again and again until it is stopped; gives what was sent. */
function keepSending(token: string): () => Promise<Sent[]> {
  let isStopped = false;
  const sending = (async () => {
    const pushes: Sent[] = [];
    while (!isStopped) {
      pushes.push(await send(tenant, token));
      await sleep(500);
    }
    return pushes;
  })();
  return () => {
    isStopped = true;
    return sending;
  };
}

test('a credential refused in the middle burns nobody, and a good one is in use within seconds', async () => {
  const { sandbox, store } = scene;
  const id = `${tenant.app}:apns`;
  const crowd = await gatherIphones(tenant, IPHONES);
  const [first = ''] = crowd.tokens;
  // If the provider token has expired without having been used since, it is replaced before anything is counted.
  await untilEnded(store, await send(tenant, first), first);
  const push = await untilMidRun('apns', crowd);
  await sandbox.behave('apns', { refuseCredential: true });
  const stop = keepSending(first);
  expect(await until(() => refusalOf(id), { timeoutMs: 20_000 })).toBe('InvalidProviderToken');

  const refusals = async () => (await sandbox.counts()).byChannel.apns?.requests ?? 0;
  const before = await refusals();
  await sleep(4_000);
  // A probe a minute, and what the line carried when it was refused.
  expect((await refusals()) - before).toBeLessThanOrEqual(1);
  const refused = (await sandbox.received(push.id)).filter(({ status }) => status === 403);
  expect(refused.length).toBeLessThanOrEqual(WINDOW + 1);
  const { outcomes = {} } = (await store.fates.ofPush(push.id)) ?? {};
  expect(Object.keys(outcomes).filter((outcome) => !['sent', 'owed'].includes(outcome))).toEqual(
    [],
  );

  await sandbox.behave('apns', { refuseCredential: false, delayMs: 0 });
  await setKey();
  await untilCounts(store, push, { sent: IPHONES }, { timeoutMs: SECONDS_MS });
  for (const lone of await stop()) {
    await untilCounts(store, lone, { sent: 1 }, { timeoutMs: SECONDS_MS });
  }
  expect(await refusalOf(id)).toBeUndefined();
  expect((await sandbox.counts()).doubles).toBe(0);
});

test('without the credential that it had, what is left fails and says why', async () => {
  const crowd = await gatherIphones(tenant, SOME);
  const headers = { 'retry-after': '2' };
  await scene.sandbox.scriptForGood('apns', '*', { as: 'ServiceUnavailable', headers });
  const push = await send(tenant, crowd.tokens);
  await until(async () => (await requestsOf(push)) > 0);
  await askCarillon(scene.stack.home, 'credential', 'remove', 'apns', '--app', tenant.app);
  await untilCounts(scene.store, push, { failed: SOME }, { timeoutMs: SECONDS_MS });
  expect(await untilEnded(scene.store, push, crowd.tokens[0] ?? '')).toEqual({
    outcome: 'failed',
    reason: 'channel-not-configured',
  });
});

test("a credential of Apple's other environment is no help", async () => {
  const { app } = tenant;
  await scene.keep(
    { app, channel: 'apns', environment: 'production' },
    apnsSecret(scene.credentials),
  );
  const [ours, theirs] = [
    await gatherIphones(tenant, SOME, 'production'),
    await gatherIphones(tenant, SOME, 'development'),
  ];
  const push = await send(tenant, [...ours.tokens, ...theirs.tokens]);
  await untilCounts(scene.store, push, { sent: SOME, failed: SOME }, { timeoutMs: SECONDS_MS });
  expect(await untilEnded(scene.store, push, theirs.tokens[0] ?? '')).toEqual({
    outcome: 'failed',
    reason: 'wrong-credential',
  });

  const secret = apnsSecret(scene.credentials);
  await scene.keep({ app, channel: 'apns', environment: 'development' }, secret);
  // What is accepted after its credential was kept doesn't fail for want of it.
  const next = await send(tenant, theirs.tokens);
  await untilCounts(scene.store, next, { sent: SOME }, { timeoutMs: SECONDS_MS });
});
