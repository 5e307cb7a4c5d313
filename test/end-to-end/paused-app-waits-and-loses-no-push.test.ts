import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { runCarillonHere, runCarillonJson } from '../support/carillon.ts';
import { type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { payloadsOf } from '../support/guarantees/devices.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { openProvidersOf, type ProviderFixture } from '../support/providers/fixture.ts';
import { registerIphones } from '../support/providers/provider-device-pool.ts';
import { listKeys, openRedis } from '../support/redis.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** Time after which all processes know of a pause. */
const KNOWN_MS = 8_000;
const PUSHES = 5;

let stack: Stack;
let fixture: ProviderFixture;
let mongo: TestMongo;
let redis: Redis;
let tenant: TestTenant;
let online: MqttDevice;
let offline: MqttDevice;
let iphone: string;
/** A device of another app. */
let beside: MqttDevice;
beforeAll(async () => {
  stack = await useKillableStack();
  fixture = await openProvidersOf({ ...stack, stop: async () => undefined });
  [mongo, redis] = [await openMongo(stack.dev), await openRedis(stack.dev)];
  tenant = await fixture.tenant();
  online = await newMqttDevice(tenant.dev);
  offline = await newMqttDevice(tenant.dev);
  beside = await newMqttDevice(stack.dev);
  [iphone = ''] = (await registerIphones(tenant, 1)).tokens;
  await Promise.all([online.connect(), beside.connect()]);
});
afterAll(async () => {
  await Promise.all([online, offline, beside].map((device) => device?.disconnect()));
  redis?.disconnect();
  await mongo?.close();
  await fixture?.close();
  await stack?.stop();
});

async function sendSome(to: string): Promise<SentPush[]> {
  const pushes: SentPush[] = [];
  for (let n = 0; n < PUSHES; n += 1) pushes.push(await sendPush(tenant, to));
  return pushes;
}

/** Whatever could have been sent by now was: another app's push came. */
async function expectBesideArrives(): Promise<void> {
  const { payload } = await sendPush(stack, beside.token);
  await until(() => payloadsOf(beside).includes(payload), { what: "the other app's push" });
}

async function restartWorkers(): Promise<void> {
  const killed = [0, 1].map((index) => stack.kill('delivery-worker', 'SIGKILL', index));
  for (const [index, pid] of killed.entries())
    await stack.waitForRestart('delivery-worker', pid, index);
}

const countAtApple = async (pushes: readonly SentPush[]) =>
  Promise.all(pushes.map(async ({ id }) => (await fixture.sandbox.received(id)).length));

const payloads = (pushes: readonly SentPush[]) => pushes.map(({ payload }) => payload);

test('pushes of a paused app are accepted and wait, and arrive once after it is resumed', async () => {
  const already = await sendPush(tenant, offline.token);
  await untilOutcomes(mongo, already, { inbox: 1 });
  const app = await runCarillonJson(stack.home, 'app', 'pause', tenant.app);
  expect(app).toMatchObject({ id: tenant.app, paused: true });
  const pausedAt = Date.now();
  await until(() => Date.now() > pausedAt + KNOWN_MS, { what: 'the pause is known' });

  const toOnline = await sendSome(online.token);
  const toOffline = await sendSome(offline.token);
  const toIphone = await sendSome(iphone);
  const short = await sendPush(tenant, online.token, { time_to_live: 4 });
  const schedule = Math.floor(Date.now() / 1_000) + 3;
  const scheduled = await sendPush(tenant, online.token, { schedule });
  await expectBesideArrives();
  await restartWorkers();
  await untilOutcomes(mongo, short, { expired: 1 });
  await until(() => Date.now() / 1_000 > schedule + 2, { what: 'the scheduled push is due' });
  await expectBesideArrives();

  expect(online.arrivals).toEqual([]);
  expect(await countAtApple(toIphone)).toEqual(toIphone.map(() => 0));
  const held = [...toOnline, ...toOffline, ...toIphone, scheduled];
  const stored = mongo.db.collection<{ _id: string; work: { tries: number } }>('pushes');
  const found = await stored.find({ _id: { $in: held.map(({ id }) => id) } }).toArray();
  expect(found.map(({ work }) => work.tries)).toEqual(held.map(() => 0));
  // The scheduler adds no job for them: the workers would end it again and again.
  for (const { id } of held) expect(await listKeys(redis, `*${id}*`)).toEqual([]);
  const { apps } = await runCarillonJson<{ apps: object[] }>(stack.home, 'queues');
  expect(apps).toContainEqual(
    expect.objectContaining({ app: tenant.app, pending: held.length, paused: true }),
  );
  // A device that connects gets what its inbox had before.
  await offline.connect();
  await offline.waitFor(1);
  expect(payloadsOf(offline)).toEqual([already.payload]);
  await offline.disconnect();

  await runCarillonJson(stack.home, 'app', 'resume', tenant.app);
  await online.waitFor(PUSHES + 1);
  await until(async () => (await countAtApple(toIphone)).every((count) => count > 0));
  for (const push of toOffline) await untilOutcomes(mongo, push, { inbox: 1 });
  await offline.connect();
  await offline.waitFor(1 + PUSHES);
  await untilOutcomes(mongo, scheduled, { delivered: 1 });
  const last = await sendPush(tenant, [online.token, offline.token]);
  await Promise.all([online.waitFor(PUSHES + 2), offline.waitFor(PUSHES + 2)]);
  expect(payloadsOf(online).toSorted()).toEqual(
    payloads([...toOnline, scheduled, last]).toSorted(),
  );
  // The inbox keeps the order of acceptance (guarantee G5).
  expect(payloadsOf(offline)).toEqual(payloads([already, ...toOffline, last]));
  expect(await countAtApple(toIphone)).toEqual(toIphone.map(() => 1));
});

test('the audit log has the pause and its end', async () => {
  const entries = await mongo.db
    .collection('audit')
    .find({ account: tenant.account, action: 'app.change' })
    .sort({ _id: 1 })
    .toArray();
  const actor = { id: 'command-line', name: 'carillon command' };
  const facts = (paused: boolean) => ({ app: tenant.app, settings: 'paused', paused });
  const begun = entries.filter(({ of }) => of === undefined);
  expect(begun).toMatchObject([
    { actor, facts: facts(true) },
    { actor, facts: facts(false) },
  ]);
  expect(entries.filter(({ result }) => result === 'done')).toHaveLength(2);
});

test('the audit log has the end of a pause that failed', async () => {
  const refusing = { pausedAt: { $exists: false } };
  await mongo.db.command({ collMod: 'apps', validator: refusing });
  const { code } = await runCarillonHere(stack.home, ['app', 'pause', tenant.app]);
  await mongo.db.command({ collMod: 'apps', validator: {} });
  expect(code).toBe(1);
  const last = await mongo.db.collection('audit').findOne({}, { sort: { _id: -1 } });
  expect(last).toMatchObject({ action: 'app.change', result: 'INTERNAL' });
});
