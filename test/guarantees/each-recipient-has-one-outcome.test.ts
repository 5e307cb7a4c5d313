import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createDeliveryStatus } from '../../packages/reports/src/delivery-status.ts';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { createDevicePool } from '../support/faults/device-pool.ts';
import { pushStatusOf, type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { subscribePool } from '../support/faults/subscribe-pool.ts';
import { createFleet } from '../support/guarantees/devices.ts';
import { expireNow, makeDue, sendTomorrow } from '../support/guarantees/schedule.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

/** One batch's number of subscribers, and a few more. */
const SUBSCRIBERS = 1_005;
const NAMED = 1_000;

let stack: SharedStack;
let mongo: TestMongo;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  stack = await useSharedStack();
  mongo = await openMongo(stack.dev);
});
afterAll(async () => {
  await fleet.disconnectAll();
  await mongo?.close();
});

/** The recipients of a push counted one by one, as `push outcomes --token` shows them. */
async function countPerRecipient(push: SentPush, devices: readonly Pick<MqttDevice, 'token'>[]) {
  const deliveryStatus = createDeliveryStatus(mongo.db);
  const counts: Record<string, number> = {};
  for (const { token } of devices) {
    const { outcome = 'unknown' } = (await deliveryStatus.statusOfRecipient(push.id, token)) ?? {};
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  return counts;
}

async function untilFinished(push: SentPush): Promise<void> {
  const isFinished = async () => (await pushStatusOf(mongo, push)).state === 'finished';
  await until(isFinished, { what: `push ${push.id} finished` });
}

test('subscribers behind a page of which all are named as tokens too are reached', async () => {
  const pool = await createDevicePool(stack, mongo, { registered: SUBSCRIBERS, real: 0 });
  const topic = await subscribePool({ stack, mongo, pool }, 'big');
  const named = [...pool.tokens].sort().slice(0, NAMED);
  const push = await sendPush(stack, [topic, ...named]);
  await untilOutcomes(mongo, push, { inbox: SUBSCRIBERS });
  const pushes = mongo.db.collection<PushDocument>('pushes');
  expect((await pushes.findOne({ _id: push.id }))?.fan.done).toBe(true);
});

test('a scheduled push to a topic and its only subscriber ends', async () => {
  const device = await fleet.online();
  const topic = randomUUID();
  await stack.api('POST', '/topics/subscribe', { token: device.token, topics: [topic] });
  const push = await sendTomorrow(stack, [`/topics/${topic}`, device.token]);
  await makeDue(mongo, [push]);
  await device.waitFor(1);
  await untilFinished(push);
  expect((await pushStatusOf(mongo, push)).outcomes).toEqual({ delivered: 1 });
});

test('a scheduled push whose topic has lost all its subscribers ends', async () => {
  const { token } = await fleet.offline();
  const topic = randomUUID();
  await stack.api('POST', '/topics/subscribe', { token, topics: [topic] });
  const push = await sendTomorrow(stack, `/topics/${topic}`);
  await stack.api('POST', '/topics/unsubscribe', { token, topics: [topic] });
  await makeDue(mongo, [push]);
  await untilFinished(push);
});

type End = (push: SentPush) => Promise<unknown>;
test.each<[outcome: string, end: End]>([
  ['expired', (push) => expireNow(mongo, push)],
  ['deleted', ({ id }) => stack.api('DELETE', `/pushes/${id}`)],
])('once it is %s each recipient has the outcome that is counted', async (outcome, end) => {
  const devices = await fleet.createMany(3, 'offline');
  const fields = { collapse_key: randomUUID().slice(0, 32) };
  const tokens = devices.map(({ token }) => token);
  const push = await sendPush(stack, tokens, fields);
  await untilOutcomes(mongo, push, { inbox: 3 });
  const newer = await sendPush(stack, tokens[0] ?? '', fields);
  await untilOutcomes(mongo, newer, { inbox: 1 });
  await end(push);
  await untilOutcomes(mongo, push, { [outcome]: 2, superseded: 1 });
  expect(await countPerRecipient(push, devices)).toEqual({ [outcome]: 2, superseded: 1 });
});

test('a receipt that comes after the end of its push changes no outcome', async () => {
  const device = await fleet.online();
  device.holdReceipts();
  const push = await sendPush(stack, device.token);
  await device.waitFor(1);
  await expireNow(mongo, push);
  await untilOutcomes(mongo, push, { expired: 1 });
  device.releaseReceipts();
  await sendPush(stack, device.token);
  await device.waitFor(2);
  await until(async () => (await receiptOf(push)) !== undefined, { what: 'the late receipt' });
  expect((await pushStatusOf(mongo, push)).outcomes).toEqual({ expired: 1 });
  expect(await countPerRecipient(push, [device])).toEqual({ expired: 1 });
});

/** The bits of receipts that came to a push by themselves. */
async function receiptOf(push: SentPush) {
  const found = await mongo.db
    .collection<PushDocument>('pushes')
    .findOne({ _id: push.id }, { projection: { 'work.got': 1 } });
  return found?.work?.got;
}
