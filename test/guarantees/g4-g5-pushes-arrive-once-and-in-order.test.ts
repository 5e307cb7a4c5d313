import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { untilAllArrived } from '../support/faults/expect-complete.ts';
import {
  countBatchStates,
  type SentPush,
  sendPush,
  untilOutcomes,
} from '../support/faults/pushes.ts';
import { createFleet, payloadsOf } from '../support/guarantees/devices.ts';
import { makeDue, sendTomorrow } from '../support/guarantees/schedule.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const STORED_PUSHES = 50;
const LIVE_PUSHES = 20;
/** Pushes without a receipt that a device may have at a time. */
const WINDOW = 16;

let stack: SharedStack;
let mongo: TestMongo;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  stack = await useSharedStack();
  mongo = await openMongo(stack.dev);
});
afterEach(() => fleet.disconnectAll());
afterAll(() => mongo?.close());

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
