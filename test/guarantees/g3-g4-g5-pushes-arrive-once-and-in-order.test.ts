import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { createDevicePool } from '../support/faults/device-pool.ts';
import { untilAllArrived } from '../support/faults/expect-complete.ts';
import {
  countBatchStates,
  pushStatusOf,
  type SentPush,
  sendPush,
  untilOutcomes,
} from '../support/faults/pushes.ts';
import { subscribePool } from '../support/faults/subscribe-pool.ts';
import { payloadsOf } from '../support/guarantees/devices.ts';
import { lendTo } from '../support/guarantees/lend-to.ts';
import { makeDue, sendTomorrow } from '../support/guarantees/schedule.ts';
import type { TestMongo } from '../support/mongo.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

/** One batch's number of subscribers, and a few more. */
const SUBSCRIBERS = 1_005;
const NAMED = 1_000;
const STORED_PUSHES = 50;
const LIVE_PUSHES = 20;
const SCHEDULED_PUSHES = 12;
/** Pushes without a receipt that a device may have at a time. */
const WINDOW = 16;

let stack: SharedStack;
let mongo: TestMongo;
const fleet = lendTo(
  () => useSharedStack(),
  (...lent) => {
    [stack, mongo] = lent;
  },
);

/** Sends one after the other, each once the previous one is processed: of two processed at once neither is first. */
async function sendMany(device: MqttDevice, count: number): Promise<SentPush[]> {
  const sent: SentPush[] = [];
  for (let n = 0; n < count; n += 1) {
    const push = await sendPush(stack, device.token);
    await until(async () => (await countBatchStates(mongo, push)).closed === 1, { everyMs: 2 });
    sent.push(push);
  }
  return sent;
}

/** A device with an inbox of many pushes. */
async function fillInbox(): Promise<{ device: MqttDevice; stored: SentPush[] }> {
  const device = await fleet.offline();
  const stored = await sendMany(device, STORED_PUSHES);
  for (const push of stored) await untilOutcomes(mongo, push, { inbox: 1 });
  return { device, stored };
}

async function expectInOrder(device: MqttDevice, sent: SentPush[]): Promise<void> {
  for (const push of sent) await untilOutcomes(mongo, push, { delivered: 1 });
  expect(payloadsOf(device)).toEqual(sent.map(({ payload }) => payload));
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

test('without a fault nothing is sent twice, whichever way a push takes', async () => {
  const devices = [
    ...(await fleet.createMany(10, 'online')),
    ...(await fleet.createMany(10, 'offline')),
  ];
  const tokens = devices.map(({ token }) => token);
  const topic = randomUUID();
  for (const token of tokens)
    await stack.api('POST', '/topics/subscribe', { token, topics: [topic] });
  const scheduled = [
    await sendTomorrow(stack, tokens),
    // Each device is named twice.
    await sendTomorrow(stack, [`/topics/${topic}`, ...tokens]),
  ];
  const ways = [tokens, `/topics/${topic}`, [`/topics/${topic}`, ...tokens, ...tokens]];
  const sent = await Promise.all(
    Array.from({ length: 30 }, (_, n) => sendPush(stack, ways[n % ways.length] ?? [])),
  );
  await makeDue(mongo, scheduled);
  const pushes = [...sent, ...scheduled];
  for (const push of pushes) await untilOutcomes(mongo, push, { delivered: 10, inbox: 10 });
  await Promise.all(devices.slice(10).map((device) => device.connect()));
  for (const push of pushes) await untilOutcomes(mongo, push, { delivered: 20 });
  const last = await sendPush(stack, tokens);
  await untilAllArrived(devices, [last]);
  const expected = [...pushes, last].map(({ payload }) => payload).sort();
  for (const device of devices) expect(payloadsOf(device).sort()).toEqual(expected);
});

test('pushes that were scheduled for one second arrive in the order of their acceptance', async () => {
  const device = await fleet.offline();
  const schedule = Math.floor(Date.now() / 1_000) + 86_400;
  const sent: SentPush[] = [];
  for (let n = 0; n < SCHEDULED_PUSHES; n += 1)
    sent.push(await sendPush(stack, device.token, { schedule }));
  await makeDue(mongo, sent);
  for (const push of sent) await untilOutcomes(mongo, push, { inbox: 1 });
  await device.connect();
  await expectInOrder(device, sent);
});

test('pushes that arrive while the replay is blocked wait behind it', async () => {
  const { device, stored } = await fillInbox();
  device.holdReceipts();
  await device.connect();
  await device.waitFor(WINDOW);
  const live = await sendMany(device, LIVE_PUSHES);
  for (const push of live) await untilOutcomes(mongo, push, { inbox: 1 });
  expect(device.arrivals).toHaveLength(WINDOW);
  device.releaseReceipts();
  await expectInOrder(device, [...stored, ...live]);
});

test('pushes that arrive during the replay do not overtake it', async () => {
  const { device, stored } = await fillInbox();
  const connected = device.connect();
  const live = await sendMany(device, LIVE_PUSHES);
  await connected;
  await expectInOrder(device, [...stored, ...live]);
});

test('a connection that breaks again and again does not change the order', async () => {
  const { device, stored } = await fillInbox();
  for (let count = WINDOW; count < STORED_PUSHES; count += WINDOW) {
    await device.connect();
    await device.waitFor(count);
    device.cut();
  }
  await device.connect();
  for (const push of stored) await untilOutcomes(mongo, push, { delivered: 1 });
  const first = new Set(payloadsOf(device));
  expect([...first]).toEqual(stored.map(({ payload }) => payload));
});
