import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { pushStatusOf, type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { createFleet } from '../support/guarantees/devices.ts';
import { makeDue, sendTomorrow } from '../support/guarantees/schedule.ts';
import { getPushStatus } from '../support/guarantees/status.ts';
import { bothOf, whileFrozen } from '../support/guarantees/while-frozen.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { openStore, type TestStore } from '../support/open-store.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

let stack: Stack;
let mongo: TestMongo;
/** Stands for an API process that dies right after its first write. */
let store: TestStore;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  stack = await useKillableStack();
  mongo = await openMongo(stack.dev);
  store = await openStore({ uri: stack.dev.mongodb, appName: 'test' });
});
afterAll(async () => {
  await store?.close();
  await mongo?.close();
  await stack?.stop();
});

/** Registers an Android device with an FCM token: an installation that registers again sends the same one. */
async function registerAndroid(fcmToken: string): Promise<string> {
  const body = { appId: stack.dev.app, platform: 'android', sdk: 10_000, fcmToken };
  const { status, json } = await stack.api<{ token: string }>('POST', '/register', body);
  expect(status).toBe(200);
  return json.token;
}

function rowsOf(token: string): Promise<number> {
  const range = { $gte: `${token}:`, $lt: `${token};` };
  return mongo.db.collection<{ _id: string }>('inbox').countDocuments({ _id: range });
}

async function expectGone(push: SentPush, token: string): Promise<void> {
  await until(async () => (await pushStatusOf(mongo, push)).state === 'finished');
  expect((await pushStatusOf(mongo, push)).outcomes).toEqual({ gone: 1 });
  expect(await store.deliveryStatus.statusOfRecipient(push.id, token)).toEqual({ outcome: 'gone' });
  expect((await getPushStatus(stack, push)).push?.pending_devices).toEqual([]);
}

test('pending pushes end as gone', async () => {
  const fcmToken = randomUUID();
  const token = await registerAndroid(fcmToken);
  const pushes = [
    await sendPush(stack, token),
    await sendPush(stack, token, { collapse_key: 'news' }),
  ];
  for (const push of pushes) await untilOutcomes(mongo, push, { inbox: 1 });
  await registerAndroid(fcmToken);
  for (const push of pushes) await expectGone(push, token);
  expect(await rowsOf(token)).toBe(0);
});

test('a push that falls due later leaves no row for it', async () => {
  const fcmToken = randomUUID();
  const token = await registerAndroid(fcmToken);
  const push = await sendTomorrow(stack, token);
  await registerAndroid(fcmToken);
  await makeDue(mongo, [push]);
  await untilOutcomes(mongo, push, { gone: 1 });
  expect(await rowsOf(token)).toBe(0);
});

test('a batch that is processed after the replacement has rows for the other devices only', async () => {
  const fcmToken = randomUUID();
  const token = await registerAndroid(fcmToken);
  const { token: other } = await fleet.offline();
  const push = await whileFrozen(stack, bothOf('delivery-worker'), async () => {
    const sent = await sendPush(stack, [token, other]);
    await registerAndroid(fcmToken);
    return sent;
  });
  await untilOutcomes(mongo, push, { gone: 1, inbox: 1 });
  expect([await rowsOf(token), await rowsOf(other)]).toEqual([0, 1]);
});

test('a process that dies right after replacing it leaves neither subscriptions nor rows', async () => {
  const address = { channel: 'fcm', address: randomUUID() } as const;
  const token = await registerAndroid(address.address);
  const topic = randomUUID();
  await stack.api('POST', '/topics/subscribe', { token, topics: [topic] });
  const push = await sendPush(stack, token);
  await untilOutcomes(mongo, push, { inbox: 1 });
  const { replaced } = await store.devices.register(stack.dev.app, 'android', address);
  expect(replaced).toEqual([token]);
  await until(async () => (await store.subscriptions.listTopics(token)).length === 0);
  await expectGone(push, token);
  const { json } = await stack.api<{ topics: { name: string }[] }>('GET', '/topics');
  expect(json.topics.map(({ name }) => name)).not.toContain(topic);
});
