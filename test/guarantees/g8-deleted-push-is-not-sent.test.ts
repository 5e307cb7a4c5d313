import { expect, test } from '@jest/globals';
import { createDevicePool } from '../support/faults/device-pool.ts';
import { untilAllArrived, untilAnotherArrived } from '../support/faults/expect-complete.ts';
import {
  pushStatusOf,
  type SentPush,
  sendPush,
  untilOutcomes,
  untilPartlyClosed,
} from '../support/faults/pushes.ts';
import { payloadsOf, pendingPushesOf } from '../support/guarantees/devices.ts';
import { lendTo } from '../support/guarantees/lend-to.ts';
import { makeDue, sendTomorrow } from '../support/guarantees/schedule.ts';
import { untilPending } from '../support/guarantees/status.ts';
import type { TestMongo } from '../support/mongo.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { createLagRecord } from '../support/observer-lag.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const LAST_SENT_MS = 1_000;
const INVALID = { status: 400, json: { code: 'INVALID_PUSH_ID' } };

let stack: SharedStack;
let mongo: TestMongo;
const fleet = lendTo(
  () => useSharedStack(),
  (...lent) => {
    [stack, mongo] = lent;
  },
);

/** Deletes a push and expects that it has no status any more. Returns the time of the response. */
async function deletePush({ id }: { id: string }): Promise<number> {
  const { status, json } = await stack.api('DELETE', `/pushes/${id}`);
  const respondedAt = performance.now();
  expect({ status, json }).toEqual({ status: 200, json: { success: true } });
  expect(await stack.api('GET', `/pushes/${id}`)).toMatchObject(INVALID);
  expect(await stack.api('DELETE', `/pushes/${id}`)).toMatchObject(INVALID);
  return respondedAt;
}

/** Expects that no device got a push later than a second after the response to its deletion. */
function expectNothingAfter(
  devices: readonly MqttDevice[],
  push: SentPush,
  respondedAt: number,
  lagMs: number,
): void {
  const late = devices
    .flatMap((device) => device.arrivals)
    .filter(({ payload }) => payload === push.payload)
    .map(({ receivedAtMs }) => receivedAtMs - respondedAt);
  expect(Math.max(0, ...late)).toBeLessThan(LAST_SENT_MS + 3 * lagMs);
}

test('a pending push never arrives', async () => {
  const device = await fleet.offline();
  const push = await sendPush(stack, device.token);
  await untilPending(stack, push, [device.token]);
  await until(async () => (await pendingPushesOf(stack, device.token)).length === 1);
  await deletePush(push);
  expect(await pendingPushesOf(stack, device.token)).toEqual([]);
  await device.connect();
  const last = await sendPush(stack, device.token);
  await untilAllArrived([device], [last]);
  expect(payloadsOf(device)).toEqual([last.payload]);
  await untilOutcomes(mongo, push, { deleted: 1 });
});

test('a scheduled push is never sent', async () => {
  const device = await fleet.online();
  const push = await sendTomorrow(stack, device.token);
  const other = await sendTomorrow(stack, device.token);
  await deletePush(push);
  await makeDue(mongo, [push, other]);
  await device.waitFor(1);
  const last = await sendPush(stack, device.token);
  await untilAllArrived([device], [last]);
  expect(payloadsOf(device)).toEqual([other.payload, last.payload]);
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

test('devices that connect during the deletion get nothing a second later', async () => {
  const devices = await fleet.createMany(20, 'offline');
  const tokens = devices.map(({ token }) => token);
  const pushes: SentPush[] = [];
  for (let i = 0; i < 20; i++) pushes.push(await sendPush(stack, tokens));
  await until(async () => (await pendingPushesOf(stack, tokens[19] ?? '')).length === 20);
  const lags = createLagRecord();
  const connected = Promise.all(devices.map((device) => device.connect()));
  const deleted = Promise.all(
    pushes.map(async (push) => ({ push, respondedAt: await deletePush(push) })),
  );
  await lags.during(Promise.all([connected, deleted]));
  await lags.during(untilAnotherArrived(stack, devices));
  for (const { push, respondedAt } of await deleted)
    expectNothingAfter(devices, push, respondedAt, lags.maxMs());
});

test('in the middle of a fan-out to 50,000 it stops within a second', async () => {
  const pool = await createDevicePool(stack, mongo, { registered: 50_000, real: 60 });
  // A busy machine may need more than the three seconds of a request.
  const push = await until(() => sendPush(stack, pool.tokens));
  await untilPartlyClosed(mongo, push);
  const lags = createLagRecord();
  const respondedAt = await lags.during(deletePush(push));
  await lags.during(untilAnotherArrived(stack, pool.devices));
  expectNothingAfter(pool.devices, push, respondedAt, lags.maxMs());
  await until(async () => ((await pushStatusOf(mongo, push)).outcomes.deleted ?? 0) > 0);
  const { outcomes } = await pushStatusOf(mongo, push);
  expect(Object.values(outcomes).reduce((sum, n) => sum + n, 0)).toBe(50_000);
  await Promise.all(pool.devices.map((device) => device.disconnect()));
});
