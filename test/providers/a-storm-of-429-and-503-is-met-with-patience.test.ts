import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { gatherAndroids, gatherIphones } from '../support/providers/crowd.ts';
import { untilCounts } from '../support/providers/outcomes.ts';
import { hastyAmong, lateAmong, timesAsked } from '../support/providers/patience.ts';
import { openProviderScene, type ProviderScene } from '../support/providers/scene.ts';
import { send } from '../support/thread/pushes.ts';
import { until } from '../support/until.ts';

const CROWD = 500;
const SOME = 50;
const PAUSE_SECONDS = 3;
const PAUSE_MS = PAUSE_SECONDS * 1_000;
/** What may be under way on a line to APNs, and to FCM. */
const WINDOWS = { apns: 150, fcm: 100 };
/** Answers of requests that were under way when the first came. */
const UNDER_WAY_MS = 1_000;
const SHORT_STORM_MS = 6_000;
const FIRST_WAIT_MS = 1_000;
/** The storm, and the minute in which all are to be sent. */
const DEADLINE_MS = 120_000;
/** Until work that is due is looked at, on a busy machine. */
const LATE_MS = 4_000;

let scene: ProviderScene;
let tenant: TestTenant;
beforeAll(async () => {
  scene = await openProviderScene();
  tenant = await scene.tenant();
  await scene.store.apps.change(tenant.app, { fcmFallbackSeconds: 0 });
});
afterEach(() => scene?.sandbox.reset());
afterAll(() => scene?.close());

function later(seconds: number) {
  return { headers: { 'retry-after': String(seconds) } };
}

/** All addresses of a channel are answered so from now on. */
function answerAll(channel: string, answer: object): Promise<void> {
  return scene.sandbox.scriptForGood(channel, '*', { ...answer });
}

test('each recipient is asked again when it may be, a line that asks for a pause gets one', async () => {
  const { sandbox, store } = scene;
  const { tokens } = await gatherIphones(tenant, CROWD);
  await answerAll('apns', { as: 'TooManyRequests', ...later(PAUSE_SECONDS) });
  const push = await send(tenant, tokens);
  await until(async () => (await sandbox.counts()).requests >= CROWD);
  await answerAll('apns', { as: 'ServiceUnavailable', ...later(PAUSE_SECONDS) });
  const with503 = async () => (await sandbox.received(push.id)).filter((one) => one.status === 503);
  await until(async () => (await with503()).length > 0);
  await sleep(2 * PAUSE_MS);
  const unavailable = await with503();
  await answerAll('apns', {});
  await untilCounts(store, push, { sent: CROWD });

  const received = await sandbox.received(push.id);
  expect(hastyAmong(received, 429, () => PAUSE_MS)).toEqual([]);
  expect(hastyAmong(received, 503, () => PAUSE_MS)).toEqual([]);
  const first = unavailable[0]?.at ?? 0;
  const inPause = unavailable.filter(
    ({ at }) => at > first + UNDER_WAY_MS && at < first + PAUSE_MS,
  );
  expect(inPause).toEqual([]);
  // The window when it began, then a probe for each pause.
  expect(unavailable.length).toBeLessThanOrEqual(WINDOWS.apns + 2);
  expect((await sandbox.counts()).doubles).toBe(0);
});

test('who is asked to wait long is not asked before, though others wait less', async () => {
  const { sandbox, store } = scene;
  const { tokens, addresses } = await gatherIphones(tenant, SOME);
  const secondsOf = new Map(addresses.map((address, index) => [address, index % 2 === 0 ? 1 : 8]));
  for (const [address, seconds] of secondsOf) {
    await sandbox.script('apns', address, [{ as: 'TooManyRequests', ...later(seconds) }]);
  }
  const push = await send(tenant, tokens);
  await untilCounts(store, push, { sent: SOME });
  const received = await sandbox.received(push.id);
  expect(hastyAmong(received, 429, (to) => (secondsOf.get(to) ?? 0) * 1_000)).toEqual([]);
  expect(received.length).toBe(2 * SOME);
});

test('a quota of FCM that is used up stops all, until it may be asked again', async () => {
  const { sandbox } = scene;
  const { tokens } = await gatherAndroids(tenant, CROWD);
  await answerAll('fcm', { as: 'QUOTA_EXCEEDED', ...later(PAUSE_SECONDS) });
  const push = await send(tenant, tokens, { time_to_live: 60 });
  await until(async () => (await sandbox.counts()).requests > 0);
  await sleep(PAUSE_MS + 1_500);
  const refused = await sandbox.received(push.id);
  await answerAll('fcm', {});
  const isDone = async () => (await sandbox.counts()).byChannel.fcm?.accepted === CROWD;
  await until(isDone, { timeoutMs: 30_000, everyMs: 100, what: 'FCM has all' });
  expect(refused.length).toBeLessThanOrEqual(WINDOWS.fcm + 2);
  expect(hastyAmong(await sandbox.received(push.id), 429, () => PAUSE_MS)).toEqual([]);
  expect((await sandbox.counts()).doubles).toBe(0);
});

test('those who may only be asked again after their end are expired, and asked no more', async () => {
  const { sandbox, store } = scene;
  const { tokens } = await gatherIphones(tenant, SOME);
  await answerAll('apns', { as: 'TooManyRequests', ...later(30) });
  const push = await send(tenant, tokens, { time_to_live: 3 });
  await untilCounts(store, push, { expired: SOME });
  expect(await sandbox.received(push.id)).toHaveLength(SOME);
});

test(
  'who is not told when is tried ever less often, and after a short storm soon again',
  async () => {
    const { sandbox, store } = scene;
    const { tokens } = await gatherIphones(tenant, CROWD);
    await answerAll('apns', { as: 'TooManyRequests' });
    const push = await send(tenant, tokens);
    await until(async () => (await sandbox.counts()).requests > 0);
    await sleep(SHORT_STORM_MS);
    await answerAll('apns', {});
    await untilCounts(store, push, { sent: CROWD });
    const received = await sandbox.received(push.id);
    // Full jitter below 1, 2, 4 and 8 s: some five tries; those that draws near 0 add are few.
    expect(Math.max(...timesAsked(received))).toBeLessThanOrEqual(11);
    // Guarantee G16: each recipient's own waits are below 1, 2, 4 … s, however often its batch was looked at.
    const mostMs = (times: number) => FIRST_WAIT_MS * 2 ** (times - 1) + LATE_MS;
    expect(lateAmong(received, mostMs)).toEqual([]);
  },
  DEADLINE_MS,
);
