import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { createDevicePool, type DevicePool } from '../support/faults/device-pool.ts';
import {
  pushStatusOf,
  type SentPush,
  sendPush,
  untilOutcomes,
  untilPartlyClosed,
} from '../support/faults/pushes.ts';
import { createTenant } from '../support/guarantees/create-tenant.ts';
import { createFleet, payloadsOf, pendingPushesOf } from '../support/guarantees/devices.ts';
import { getPushStatus, untilPending } from '../support/guarantees/status.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const LAST_SENT_MS = 1_000;
const INVALID = { status: 400, json: { code: 'INVALID_PUSH_ID' } };

let stack: SharedStack;
let mongo: TestMongo;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  stack = await useSharedStack();
  mongo = await openMongo(stack.dev);
});
afterEach(() => fleet.disconnectAll());
afterAll(async () => {
  await mongo?.close();
});

/** Deletes a push and expects that it has no status any more. Returns the time of the response. */
async function deletePush({ id }: { id: string }): Promise<number> {
  const { status, json } = await stack.api('DELETE', `/pushes/${id}`);
  const respondedAt = performance.now();
  expect({ status, json }).toEqual({ status: 200, json: { success: true } });
  expect(await stack.api('GET', `/pushes/${id}`)).toMatchObject(INVALID);
  expect(await stack.api('DELETE', `/pushes/${id}`)).toMatchObject(INVALID);
  return respondedAt;
}

/** Sends one more push to devices and waits until all have it, and with it all earlier ones. */
async function sendLast(devices: readonly MqttDevice[]): Promise<SentPush> {
  const last = await sendPush(
    stack,
    devices.map(({ token }) => token),
  );
  const hasArrived = (device: MqttDevice) => payloadsOf(device).includes(last.payload);
  await until(() => devices.every(hasArrived), { timeoutMs: 40_000, what: 'the last push' });
  return last;
}

/** When a push arrived at any of the devices, by the local clock. */
function arrivalTimes(devices: readonly MqttDevice[], { payload }: SentPush): number[] {
  const arrivals = devices.flatMap((device) => device.arrivals);
  return arrivals
    .filter((arrival) => arrival.payload === payload)
    .map(({ receivedAtMs }) => receivedAtMs);
}

test('a pending push never arrives', async () => {
  const device = await fleet.offline();
  const push = await sendPush(stack, device.token);
  await untilPending(stack, push, [device.token]);
  await until(async () => (await pendingPushesOf(stack, device.token)).length === 1);
  await deletePush(push);
  expect(await pendingPushesOf(stack, device.token)).toEqual([]);
  await device.connect();
  const last = await sendLast([device]);
  expect(payloadsOf(device)).toEqual([last.payload]);
  await untilOutcomes(mongo, push, { deleted: 1 });
});

test('a scheduled push is never sent', async () => {
  const device = await fleet.online();
  const schedule = Math.floor(Date.now() / 1_000) + 2;
  const push = await sendPush(stack, device.token, { schedule });
  const scheduledPush = await sendPush(stack, device.token, { schedule });
  await deletePush(push);
  await device.waitFor(1);
  const last = await sendLast([device]);
  expect(payloadsOf(device)).toEqual([scheduledPush.payload, last.payload]);
});

test('a push delivered to all can be deleted', async () => {
  const device = await fleet.online();
  const push = await sendPush(stack, device.token);
  await untilOutcomes(mongo, push, { delivered: 1 });
  await until(async () => (await pushStatusOf(mongo, push)).state === 'finished');
  await deletePush(push);
  expect((await pushStatusOf(mongo, push)).outcomes).toEqual({ delivered: 1 });
});

test('of ten deletions at once one succeeds', async () => {
  const { token } = await fleet.offline();
  const push = await sendPush(stack, token);
  const all = Array.from({ length: 10 }, () => stack.api('DELETE', `/pushes/${push.id}`));
  const statuses = (await Promise.all(all)).map(({ status }) => status);
  expect(statuses.sort()).toEqual([200, ...Array(9).fill(400)]);
});

test("another app's push can't be deleted", async () => {
  const tenant = await createTenant(stack);
  const { token } = await fleet.offline();
  const push = await sendPush(stack, token);
  const { status, json } = await tenant.api('DELETE', `/pushes/${push.id}`);
  expect({ status, json }).toMatchObject(INVALID);
  expect((await getPushStatus(stack, push)).push?.pending_devices).toEqual([token]);
});

test('devices that connect during the deletion get nothing a second later', async () => {
  const devices = await fleet.createMany(20, 'offline');
  const tokens = devices.map(({ token }) => token);
  const pushes: SentPush[] = [];
  for (let i = 0; i < 20; i++) pushes.push(await sendPush(stack, tokens));
  await until(async () => (await pendingPushesOf(stack, tokens[19] ?? '')).length === 20);
  const connected = Promise.all(devices.map((device) => device.connect()));
  const deleted = await Promise.all(
    pushes.map(async (push) => ({ push, respondedAt: await deletePush(push) })),
  );
  await connected;
  await sendLast(devices);
  for (const { push, respondedAt } of deleted) {
    const after = arrivalTimes(devices, push).map((at) => at - respondedAt);
    expect(Math.max(0, ...after)).toBeLessThan(LAST_SENT_MS);
  }
});

test('in the middle of a fan-out to 50,000 it stops within a second', async () => {
  const pool: DevicePool = await createDevicePool(stack, mongo, { registered: 50_000, real: 60 });
  const push = await sendPush(stack, pool.tokens);
  await untilPartlyClosed(mongo, push);
  const respondedAt = await deletePush(push);
  await sendLast(pool.devices);
  const after = arrivalTimes(pool.devices, push).map((at) => at - respondedAt);
  expect(Math.max(0, ...after)).toBeLessThan(LAST_SENT_MS);
  await until(async () => ((await pushStatusOf(mongo, push)).outcomes.deleted ?? 0) > 0);
  const { outcomes } = await pushStatusOf(mongo, push);
  expect(Object.values(outcomes).reduce((sum, n) => sum + n, 0)).toBe(50_000);
  await Promise.all(pool.devices.map((device) => device.disconnect()));
});
