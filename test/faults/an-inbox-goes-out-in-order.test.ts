import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type SentPush, sendPush, untilFates, workStates } from '../support/faults/pushes.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const OWED = 50;
const LIVE = 20;
/** Pushes without a receipt that a device may have at a time. */
const WINDOW = 16;

let stack: Stack;
let mongo: TestMongo;
beforeAll(async () => {
  stack = await startStack();
  mongo = await openMongo(stack.dev);
});
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
});

/** Sends one after the other, each once the one before is worked: of two worked at once neither is first. */
async function sendMany(device: MqttDevice, count: number): Promise<SentPush[]> {
  const sent: SentPush[] = [];
  for (let n = 0; n < count; n += 1) {
    const push = await sendPush(stack, device.token);
    await until(async () => (await workStates(mongo, push)).closed === 1, { everyMs: 2 });
    sent.push(push);
  }
  return sent;
}

async function owe(device: MqttDevice): Promise<SentPush[]> {
  const sent = await sendMany(device, OWED);
  for (const push of sent) await untilFates(mongo, push, { inbox: 1 });
  return sent;
}

async function expectInOrder(device: MqttDevice, sent: SentPush[]): Promise<void> {
  for (const push of sent) await untilFates(mongo, push, { delivered: 1 });
  expect(device.arrivals.map(({ payload }) => payload)).toEqual(sent.map(({ payload }) => payload));
}

test('pushes that come while it is held up wait behind it', async () => {
  const device = await newMqttDevice(stack.dev);
  const owed = await owe(device);
  device.holdReceipts();
  await device.connect();
  await device.waitFor(WINDOW);
  const live = await sendMany(device, LIVE);
  for (const push of live) await untilFates(mongo, push, { inbox: 1 });
  expect(device.arrivals).toHaveLength(WINDOW);
  device.releaseReceipts();
  await expectInOrder(device, [...owed, ...live]);
  await device.disconnect();
});

test('pushes that come while it goes out do not overtake it', async () => {
  const device = await newMqttDevice(stack.dev);
  const owed = await owe(device);
  const connected = device.connect();
  const live = await sendMany(device, LIVE);
  await connected;
  await expectInOrder(device, [...owed, ...live]);
  await device.disconnect();
});

test('a link that breaks again and again does not change the order', async () => {
  const device = await newMqttDevice(stack.dev);
  const sent = await owe(device);
  for (let count = WINDOW; count < OWED; count += WINDOW) {
    await device.connect();
    await device.waitFor(count);
    device.cut();
  }
  await device.connect();
  for (const push of sent) await untilFates(mongo, push, { delivered: 1 });
  const first = new Set(device.arrivals.map(({ payload }) => payload));
  expect([...first]).toEqual(sent.map(({ payload }) => payload));
  await device.disconnect();
});
