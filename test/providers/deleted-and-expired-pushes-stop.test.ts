import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { gatherAndroids, gatherBrowsers, gatherIphones } from '../support/providers/crowd.ts';
import { untilCounts } from '../support/providers/outcomes.ts';
import type { Received } from '../support/providers/sandbox.ts';
import { openProviderScene, type ProviderScene } from '../support/providers/scene.ts';
import { type Sent, send, statusOf } from '../support/thread/pushes.ts';
import { until } from '../support/until.ts';

const IPHONES = 2_000;
const ANDROIDS = 1_000;
const BROWSERS = 300;
const SOME = 20;
/** All of a crowd take some seconds more. */
const SLOW = { delayMs: 500 };
/** Guarantee G8. */
const STOPS_WITHIN_MS = 1_000;
/** Long enough for requests that should not come. */
const LOOK_ON_MS = 3_000;
/** How long a push for devices that are there now is worked at. */
const SEND_NOW_MS = 5_000;
const DAY = 86_400;

let scene: ProviderScene;
let tenant: TestTenant;
beforeAll(async () => {
  scene = await openProviderScene();
  tenant = await scene.tenant();
  await scene.store.apps.change(tenant.app, { fcmFallbackSeconds: 0 });
});
afterEach(() => scene?.sandbox.reset());
afterAll(() => scene?.close());

/** Waits until a provider has got something of a push. */
async function untilBegun({ id }: Sent): Promise<void> {
  await until(async () => (await scene.sandbox.received(id)).length > 0);
}

test('a push that is deleted in the middle goes to nobody more after a second', async () => {
  const { sandbox, store } = scene;
  const crowds = [
    await gatherIphones(tenant, IPHONES),
    await gatherAndroids(tenant, ANDROIDS),
    await gatherBrowsers(tenant, sandbox, BROWSERS),
  ];
  for (const channel of ['apns', 'fcm', 'web-push']) await sandbox.behave(channel, SLOW);
  const pushes: Sent[] = [];
  for (const { tokens } of crowds) pushes.push(await send(tenant, tokens));
  await Promise.all(pushes.map(untilBegun));
  const answers = await Promise.all(pushes.map(({ id }) => tenant.api('DELETE', `/pushes/${id}`)));
  const deletedAt = Date.now();
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  await sleep(STOPS_WITHIN_MS + LOOK_ON_MS);

  for (const [index, { id }] of pushes.entries()) {
    const received = await sandbox.received(id);
    expect(received.length).toBeLessThan(crowds[index]?.tokens.length ?? 0);
    expect(received.filter(({ at }) => at > deletedAt + STOPS_WITHIN_MS)).toEqual([]);
    const { outcomes = {}, devices } = (await store.fates.ofPush(id)) ?? {};
    expect((outcomes.sent ?? 0) + (outcomes.deleted ?? 0)).toBe(devices);
    expect(outcomes.deleted).toBeGreaterThan(0);
  }
});

test('a push that expires in the middle goes to nobody more', async () => {
  const { sandbox, store } = scene;
  const { tokens } = await gatherIphones(tenant, IPHONES);
  await sandbox.behave('apns', SLOW);
  const push = await send(tenant, tokens, { time_to_live: 2 });
  const { expiration } = await statusOf(tenant, push.id);
  const isOver = async () => (await store.fates.ofPush(push.id))?.state === 'finished';
  await until(isOver, { timeoutMs: 20_000 });
  await sleep(LOOK_ON_MS);
  const received = await sandbox.received(push.id);
  // The expiration is told in whole seconds.
  expect(received.filter(({ at }) => at >= (expiration + 1) * 1_000)).toEqual([]);
  const { outcomes = {} } = (await store.fates.ofPush(push.id)) ?? {};
  expect((outcomes.sent ?? 0) + (outcomes.expired ?? 0)).toBe(IPHONES);
  expect(outcomes.expired).toBeGreaterThan(0);
});

test('a push for now is worked at for five seconds, and no longer', async () => {
  const { sandbox, store } = scene;
  const { tokens } = await gatherIphones(tenant, SOME);
  await sandbox.scriptForGood('apns', '*', { as: 'TooManyRequests' });
  const sentAt = Date.now();
  const push = await send(tenant, tokens, { time_to_live: 0 });
  await untilCounts(store, push, { expired: SOME });
  await sleep(LOOK_ON_MS);
  const received = await sandbox.received(push.id);
  expect(received.length).toBeGreaterThan(0);
  expect(received.filter(({ at }) => at > sentAt + SEND_NOW_MS + 1_000)).toEqual([]);
});

/** The time to live as a provider is told it; APNs is told the moment. */
function toldOf({ channel, headers, payload }: Received): unknown {
  if (channel === 'apns') return Number(headers['apns-expiration']);
  if (channel === 'web-push') return Number(headers.ttl);
  return Number.parseFloat((payload?.android as { ttl: string } | undefined)?.ttl ?? 'NaN');
}

test('each provider is told how long it may keep a push', async () => {
  const { sandbox } = scene;
  const [iphones, androids, browsers] = [
    await gatherIphones(tenant, 1),
    await gatherAndroids(tenant, 1),
    await gatherBrowsers(tenant, sandbox, 1),
  ];
  const tokens = [iphones, androids, browsers].flatMap((crowd) => crowd.tokens);
  const toldWith = async (seconds: number) => {
    const push = await send(tenant, tokens, { time_to_live: seconds });
    const received = await until(async () => {
      const some = await sandbox.received(push.id);
      return some.length === tokens.length && some;
    });
    return new Map(received.map((one) => [one.channel, toldOf(one)]));
  };

  const hour = await toldWith(3_600);
  const now = Math.floor(Date.now() / 1_000);
  expect(hour.get('apns')).toBeGreaterThan(now + 3_580);
  expect(hour.get('apns')).toBeLessThanOrEqual(now + 3_600);
  for (const channel of ['fcm', 'web-push'] as const) {
    expect(hour.get(channel)).toBeGreaterThan(3_580);
    expect(hour.get(channel)).toBeLessThanOrEqual(3_600);
  }
  const year = await toldWith(365 * DAY);
  expect(year.get('apns')).toBeLessThanOrEqual(Math.ceil(Date.now() / 1_000) + 30 * DAY);
  expect(year.get('apns')).toBeGreaterThan(now + 29 * DAY);
  expect([year.get('fcm'), year.get('web-push')]).toEqual([28 * DAY, 28 * DAY]);
});

test('for devices that are there now, no provider keeps anything', async () => {
  const { sandbox } = scene;
  const crowds = [await gatherIphones(tenant, 1), await gatherBrowsers(tenant, sandbox, 1)];
  const push = await send(
    tenant,
    crowds.flatMap(({ tokens }) => tokens),
    { time_to_live: 0 },
  );
  const received = await until(async () => {
    const some = await sandbox.received(push.id);
    return some.length === crowds.length && some;
  });
  expect(received.map(toldOf)).toEqual([0, 0]);
});
