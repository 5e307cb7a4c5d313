import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { runCarillonHere } from '../support/carillon.ts';
import { untilInbox } from '../support/end-to-end/pushes.ts';
import { pushStatusOf, type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { lendTo } from '../support/guarantees/lend-to.ts';
import { makeDue, sendTomorrow } from '../support/guarantees/schedule.ts';
import { getPushStatus } from '../support/guarantees/status.ts';
import { bothOf, whileFrozen } from '../support/guarantees/while-frozen.ts';
import type { TestMongo } from '../support/mongo.ts';
import { openStore, type TestStore } from '../support/open-store.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

let stack: Stack;
let mongo: TestMongo;
/** Stands for an API process that dies right after its first write. */
let store: TestStore;
afterAll(() => store?.close());
const fleet = lendTo(
  () => useKillableStack(),
  (...lent) => {
    [stack, mongo] = lent;
  },
);
beforeAll(async () => {
  store = await openStore({ uri: stack.dev.mongodb, appName: 'test' });
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

const erase = (...args: string[]) =>
  runCarillonHere(stack.home, ['--json', 'device', 'erase', ...args], {
    CARILLON_API: stack.dev.api,
    CARILLON_API_KEY: stack.dev.apiKey,
  });

/** The documents of the app that contain a text. */
async function findDocuments(text: string): Promise<string[]> {
  const found: string[] = [];
  for (const name of ['pushes', 'batches', 'subscriptions', 'inbox', 'devices']) {
    const all = mongo.db.collection(name).find({
      $or: [{ app: stack.dev.app }, { _id: { $regex: text } as never }, { token: text }],
    });
    for await (const document of all)
      if (JSON.stringify(document).includes(text)) found.push(`${name} ${document._id}`);
  }
  return found;
}

test('of an erased device nothing but the record of the deletion names it, and others get their pushes', async () => {
  const [erased, other] = await fleet.createMany(2, 'offline');
  if (erased === undefined || other === undefined) throw new Error('no devices');
  const { token } = erased;
  const topic = randomUUID();
  for (const subscriber of [token, other.token])
    await stack.api('POST', '/topics/subscribe', { token: subscriber, topics: [topic] });
  const waiting = await sendPush(stack, [token, other.token]);
  await untilInbox(stack, token, [waiting.id]);
  const scheduled = await sendTomorrow(stack, [token, other.token]);
  const toTopic = await sendTomorrow(stack, [`/topics/${topic}`, token]);

  const { code, stdout, stderr } = await erase(token, '--now');
  expect([code, stderr]).toEqual([0, expect.stringContaining(' read')]);
  expect(JSON.parse(stdout)).toMatchObject({ token, recordUntil: expect.any(String) });
  expect(await findDocuments(token)).toEqual([`devices ${token}`]);
  await untilOutcomes(mongo, waiting, { gone: 1, inbox: 1 });

  await expect(erased.connect()).rejects.toThrow();
  await other.connect();
  await makeDue(mongo, [scheduled, toTopic]);
  const arrivals = await other.waitFor(3);
  expect(arrivals.map(({ payload }) => payload).sort()).toEqual(
    [waiting, scheduled, toTopic].map(({ payload }) => payload).sort(),
  );
  for (const push of [waiting, scheduled])
    await untilOutcomes(mongo, push, { gone: 1, delivered: 1 });
  expect(await findDocuments(token)).toEqual([`devices ${token}`]);
});

test('an erasure may be repeated, and a device that is not deleted is not erased by it', async () => {
  const device = await fleet.offline();
  for (let n = 0; n < 2; n += 1) expect((await erase(device.token, '--now')).code).toBe(0);
  const foreign = await erase('f'.repeat(22), '--now');
  expect([foreign.code, foreign.stderr]).toEqual([1, expect.stringContaining('no deleted device')]);
  expect((await erase(device.token)).code).toBe(2);
});
