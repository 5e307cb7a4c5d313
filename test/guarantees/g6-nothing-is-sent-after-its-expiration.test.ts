import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { type SentPush, sendPush, untilFates } from '../support/faults/pushes.ts';
import { createFleet, payloadsAt, pendingAt } from '../support/guarantees/devices.ts';
import { whileHeld } from '../support/guarantees/hold.ts';
import { startUnlimited } from '../support/guarantees/start-unlimited.ts';
import { statusOf, untilGone, untilPending } from '../support/guarantees/status.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const DAY = 86_400;
const WINDOW = 16;
/** Long enough for the push to meet the full window, short enough to come in time. */
const HELD_MS = 500;

let stack: Stack;
let mongo: TestMongo;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  stack = await startUnlimited();
  mongo = await openMongo(stack.dev);
});
afterEach(() => fleet.disconnectAll());
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
});

/** Sends one more push and expects that it comes next, and nothing else with it. */
async function expectNothingBut(device: MqttDevice, earlier: readonly SentPush[]): Promise<void> {
  const last = await sendPush(stack, device.token);
  await until(() => payloadsAt(device).includes(last.payload));
  expect(payloadsAt(device)).toEqual([...earlier, last].map(({ payload }) => payload));
}

test('time to live 0 reaches a device that is connected, and no status tells of it', async () => {
  const device = await fleet.online();
  const push = await sendPush(stack, device.token, { time_to_live: 0 });
  expect(await statusOf(stack, push)).toMatchObject({ status: 400, code: 'INVALID_PUSH_ID' });
  await device.waitFor(1);
  await untilFates(mongo, push, { delivered: 1 });
  await expectNothingBut(device, [push]);
});

test('time to live 0 reaches a device that is connected and still empties its inbox', async () => {
  const device = await fleet.offline();
  const owed: SentPush[] = [];
  for (let i = 0; i <= WINDOW; i += 1) owed.push(await sendPush(stack, device.token));
  for (const push of owed) await untilPending(stack, push, [device.token]);
  device.holdReceipts();
  await device.connect();
  await device.waitFor(WINDOW);
  const push = await sendPush(stack, device.token, { time_to_live: 0 });
  await sleep(HELD_MS);
  device.releaseReceipts();
  await device.waitFor(WINDOW + 2);
  await untilFates(mongo, push, { delivered: 1 });
  await expectNothingBut(device, [...owed, push]);
});

test('time to live 0 is not kept for a device that is offline', async () => {
  const device = await fleet.offline();
  const push = await sendPush(stack, device.token, { time_to_live: 0 });
  await untilFates(mongo, push, { expired: 1 });
  expect(await pendingAt(stack, device.token)).toEqual([]);
  await device.connect();
  await expectNothingBut(device, []);
});

test('a short time to live ends for an offline device', async () => {
  const device = await fleet.offline();
  const push = await sendPush(stack, device.token, { time_to_live: 2 });
  await untilPending(stack, push, [device.token]);
  const { push: status } = await statusOf(stack, push);
  expect(status?.expiration).toBe((status?.date ?? 0) + 2);
  await untilGone(stack, push);
  expect(await pendingAt(stack, device.token)).toEqual([]);
  await device.connect();
  await expectNothingBut(device, []);
  await untilFates(mongo, push, { expired: 1 });
  expect((await stack.api('DELETE', `/pushes/${push.id}`)).json.code).toBe('INVALID_PUSH_ID');
});

test('what expires behind a full window is not sent when the window opens', async () => {
  const device = await fleet.offline();
  const pushes: SentPush[] = [];
  for (let i = 0; i < 2 * WINDOW; i++) {
    pushes.push(await sendPush(stack, device.token, { time_to_live: 4 }));
  }
  const last = pushes.at(-1) as SentPush;
  await until(async () => (await pendingAt(stack, device.token)).length === pushes.length);
  device.holdReceipts();
  await device.connect();
  await device.waitFor(WINDOW / 2);
  await untilGone(stack, last);
  const sent = pushes.slice(0, device.arrivals.length);
  expect(sent.length).toBeLessThan(pushes.length);
  device.releaseReceipts();
  await expectNothingBut(device, sent);
});

test('what expires before it is worked is not sent at all', async () => {
  const device = await fleet.online();
  const [short, none] = await whileHeld(stack, [{ service: 'delivery-worker' }], async () => {
    const pushes = [
      await sendPush(stack, device.token, { time_to_live: 1 }),
      await sendPush(stack, device.token, { time_to_live: 0 }),
    ] as const;
    // A time to live of 0 is worked for 5 s.
    const longer = await sendPush(stack, device.token, { time_to_live: 6 });
    await untilGone(stack, longer);
    return pushes;
  });
  await untilFates(mongo, short, { expired: 1 });
  await untilFates(mongo, none, { expired: 1 });
  await expectNothingBut(device, []);
});

test('a scheduled push lives from its time on', async () => {
  const { token } = await fleet.offline();
  const schedule = Math.floor(Date.now() / 1_000) + 2;
  const push = await sendPush(stack, token, { schedule, time_to_live: 3 });
  const status = await until(async () => (await statusOf(stack, push)).push);
  expect(status.expiration).toBe(schedule + 3);
  const [entry] = await until(async () => {
    const entries = await pendingAt(stack, token);
    return entries.length > 0 && entries;
  });
  expect(entry).toMatchObject({ id: push.id, expiration: schedule + 3 });
  await untilGone(stack, push);
  expect(Date.now() / 1_000).toBeGreaterThanOrEqual(schedule + 3);
});

test('without a time to live it is 30 days', async () => {
  const { token } = await fleet.offline();
  const { push: status } = await statusOf(stack, await sendPush(stack, token));
  expect((status?.expiration ?? 0) - (status?.date ?? 0)).toBe(30 * DAY);
});
