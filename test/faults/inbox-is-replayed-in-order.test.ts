import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  countBatchStates,
  type SentPush,
  sendPush,
  untilOutcomes,
} from '../support/faults/pushes.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const STORED_PUSHES = 50;
const LIVE_PUSHES = 20;
/** Pushes without a receipt that a device may have at a time. */
const WINDOW = 16;

let stack: SharedStack;
let mongo: TestMongo;
beforeAll(async () => {
  stack = await useSharedStack();
  mongo = await openMongo(stack.dev);
});
afterAll(async () => {
  await mongo?.close();
});

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

async function enqueuePushes(device: MqttDevice): Promise<SentPush[]> {
  const sent = await sendMany(device, STORED_PUSHES);
  for (const push of sent) await untilOutcomes(mongo, push, { inbox: 1 });
  return sent;
}

async function expectInOrder(device: MqttDevice, sent: SentPush[]): Promise<void> {
  for (const push of sent) await untilOutcomes(mongo, push, { delivered: 1 });
  expect(device.arrivals.map(({ payload }) => payload)).toEqual(sent.map(({ payload }) => payload));
}

test('pushes that arrive while the replay is blocked wait behind it', async () => {
  const device = await newMqttDevice(stack.dev);
  const pendingPushes = await enqueuePushes(device);
  device.holdReceipts();
  await device.connect();
  await device.waitFor(WINDOW);
  const live = await sendMany(device, LIVE_PUSHES);
  for (const push of live) await untilOutcomes(mongo, push, { inbox: 1 });
  expect(device.arrivals).toHaveLength(WINDOW);
  device.releaseReceipts();
  await expectInOrder(device, [...pendingPushes, ...live]);
  await device.disconnect();
});

test('pushes that arrive during the replay do not overtake it', async () => {
  const device = await newMqttDevice(stack.dev);
  const pendingPushes = await enqueuePushes(device);
  const connected = device.connect();
  const live = await sendMany(device, LIVE_PUSHES);
  await connected;
  await expectInOrder(device, [...pendingPushes, ...live]);
  await device.disconnect();
});

test('a connection that breaks again and again does not change the order', async () => {
  const device = await newMqttDevice(stack.dev);
  const sent = await enqueuePushes(device);
  for (let count = WINDOW; count < STORED_PUSHES; count += WINDOW) {
    await device.connect();
    await device.waitFor(count);
    device.cut();
  }
  await device.connect();
  for (const push of sent) await untilOutcomes(mongo, push, { delivered: 1 });
  const first = new Set(device.arrivals.map(({ payload }) => payload));
  expect([...first]).toEqual(sent.map(({ payload }) => payload));
  await device.disconnect();
});
