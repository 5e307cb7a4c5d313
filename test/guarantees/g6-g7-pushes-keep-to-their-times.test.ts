import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { untilAllArrived } from '../support/faults/expect-complete.ts';
import { pushStatusOf, type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { crashAndRecover } from '../support/guarantees/crash-stack.ts';
import { payloadsOf, pendingPushesOf } from '../support/guarantees/devices.ts';
import { lendTo } from '../support/guarantees/lend-to.ts';
import { makeDue, sendTomorrow } from '../support/guarantees/schedule.ts';
import { getPushStatus, untilNotPending, untilPending } from '../support/guarantees/status.ts';
import { bothOf, whileFrozen } from '../support/guarantees/while-frozen.ts';
import { expectWithin } from '../support/lag.ts';
import type { TestMongo } from '../support/mongo.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const DAY = 86_400;
const WINDOW = 16;
/** Long enough for the push to reach the full window, short enough to arrive in time. */
const HELD_MS = 500;
/** How far a process's idea of MongoDB's time may be off on a busy machine. */
const CLOCK_SLACK_MS = 100;
/** How long after a recovery a push may arrive that was due before. */
const CONTINUES_WITHIN_MS = 10_000;

let stack: Stack;
let mongo: TestMongo;
const fleet = lendTo(
  () => useKillableStack(),
  (...lent) => {
    [stack, mongo] = lent;
  },
);

/** Sends one more push and expects that it comes next, and nothing else with it. */
async function expectOnlyArrivals(device: MqttDevice, earlier: readonly SentPush[]): Promise<void> {
  const last = await sendPush(stack, device.token);
  await until(() => payloadsOf(device).includes(last.payload));
  expect(payloadsOf(device)).toEqual([...earlier, last].map(({ payload }) => payload));
}

test('time to live 0 reaches a device that is connected, and leaves no status', async () => {
  const device = await fleet.online();
  const push = await sendPush(stack, device.token, { time_to_live: 0 });
  expect(await getPushStatus(stack, push)).toMatchObject({ status: 400, code: 'INVALID_PUSH_ID' });
  await device.waitFor(1);
  await untilOutcomes(mongo, push, { delivered: 1 });
  await expectOnlyArrivals(device, [push]);
});

test('time to live 0 reaches a device that is connected and whose inbox is being replayed', async () => {
  const device = await fleet.offline();
  const pendingPushes: SentPush[] = [];
  for (let i = 0; i <= WINDOW; i += 1) pendingPushes.push(await sendPush(stack, device.token));
  // The inbox is read on only when half of the window is free: all rows must be there before the first read.
  for (const push of pendingPushes) await untilOutcomes(mongo, push, { inbox: 1 });
  device.holdReceipts();
  await device.connect();
  await device.waitFor(WINDOW);
  const push = await sendPush(stack, device.token, { time_to_live: 0 });
  await sleep(HELD_MS);
  device.releaseReceipts();
  await device.waitFor(WINDOW + 2);
  await untilOutcomes(mongo, push, { delivered: 1 });
  await expectOnlyArrivals(device, [...pendingPushes, push]);
});

test('time to live 0 is not kept for a device that is offline', async () => {
  const device = await fleet.offline();
  const push = await sendPush(stack, device.token, { time_to_live: 0 });
  await untilOutcomes(mongo, push, { expired: 1 });
  expect(await pendingPushesOf(stack, device.token)).toEqual([]);
  await device.connect();
  await expectOnlyArrivals(device, []);
});

test('a short time to live ends for an offline device', async () => {
  const device = await fleet.offline();
  const push = await sendPush(stack, device.token, { time_to_live: 2 });
  await untilPending(stack, push, [device.token]);
  const { push: status } = await getPushStatus(stack, push);
  expect(status?.expiration).toBe((status?.date ?? 0) + 2);
  await untilNotPending(stack, push);
  expect(await pendingPushesOf(stack, device.token)).toEqual([]);
  await device.connect();
  await expectOnlyArrivals(device, []);
  await untilOutcomes(mongo, push, { expired: 1 });
  expect((await stack.api('DELETE', `/pushes/${push.id}`)).json.code).toBe('INVALID_PUSH_ID');
});

test('a push that expires behind a full window is not sent when the window opens', async () => {
  // On a busy machine all may expire before.
  while ((await expireBehindFullWindow()) === 0);
});

/** Returns how many pushes were behind the window. */
async function expireBehindFullWindow(): Promise<number> {
  const device = await fleet.offline();
  const sent: SentPush[] = [];
  for (let i = 0; i < WINDOW; i += 1) sent.push(await sendPush(stack, device.token));
  for (const push of sent) await untilOutcomes(mongo, push, { inbox: 1 });
  const behind = Array.from({ length: WINDOW }, () =>
    sendPush(stack, device.token, { time_to_live: 4 }),
  );
  const expiring = await Promise.all(behind);
  for (const push of expiring) {
    const isProcessed = async () => {
      const { inbox = 0, expired = 0 } = (await pushStatusOf(mongo, push)).outcomes;
      return inbox + expired === 1;
    };
    await until(isProcessed);
  }
  const statuses = await Promise.all(expiring.map((push) => pushStatusOf(mongo, push)));
  device.holdReceipts();
  await device.connect();
  await device.waitFor(WINDOW);
  for (const push of expiring) await untilNotPending(stack, push);
  device.releaseReceipts();
  await expectOnlyArrivals(device, sent);
  return statuses.filter(({ outcomes }) => outcomes.inbox === 1).length;
}

test('a push that expires before it is processed is not sent at all', async () => {
  const device = await fleet.online();
  const [short, none] = await whileFrozen(stack, bothOf('delivery-worker'), async () => {
    const pushes = [
      await sendPush(stack, device.token, { time_to_live: 1 }),
      await sendPush(stack, device.token, { time_to_live: 0 }),
    ] as const;
    // A push with a time to live of 0 is tried for 5 s.
    const longer = await sendPush(stack, device.token, { time_to_live: 6 });
    await untilNotPending(stack, longer);
    return pushes;
  });
  await untilOutcomes(mongo, short, { expired: 1 });
  await untilOutcomes(mongo, none, { expired: 1 });
  await expectOnlyArrivals(device, []);
});

test('a scheduled push lives from its time on', async () => {
  const { token } = await fleet.offline();
  const schedule = Math.floor(Date.now() / 1_000) + 2;
  const push = await sendPush(stack, token, { schedule, time_to_live: 3 });
  const status = await until(async () => (await getPushStatus(stack, push)).push);
  expect(status.expiration).toBe(schedule + 3);
  const [entry] = await until(async () => {
    const entries = await pendingPushesOf(stack, token);
    return entries.length > 0 && entries;
  });
  expect(entry).toMatchObject({ id: push.id, expiration: schedule + 3 });
  await untilNotPending(stack, push);
  expect(Date.now() / 1_000).toBeGreaterThanOrEqual(schedule + 3);
});

test('without a time to live it is 30 days', async () => {
  const { token } = await fleet.offline();
  const { push: status } = await getPushStatus(stack, await sendPush(stack, token));
  expect((status?.expiration ?? 0) - (status?.date ?? 0)).toBe(30 * DAY);
});

/** Converts a moment of the local monotonic clock: MongoDB's clock is this machine's. */
const toClock = (localMs: number) => Date.now() + 1 - performance.now() + localMs;

/** Makes pushes due in a second. Returns when that is, in milliseconds. */
async function makeDueSoon(pushes: readonly SentPush[]): Promise<number> {
  const dueAt = Date.now() + 1_000;
  await makeDue(mongo, pushes, new Date(dueAt));
  return dueAt;
}

function expectNotBefore(dueAt: number, devices: readonly MqttDevice[]): void {
  const times = devices.flatMap(({ arrivals }) => arrivals.map(({ receivedAtMs }) => receivedAtMs));
  expect(toClock(Math.min(...times))).toBeGreaterThanOrEqual(dueAt);
}

test('a scheduled push arrives when it is due, and not before', async () => {
  const device = await fleet.online();
  const dueAt = Math.ceil(Date.now() / 1_000) + 2;
  const push = await sendPush(stack, device.token, { schedule: dueAt });
  await device.waitFor(1);
  expect(payloadsOf(device)).toEqual([push.payload]);
  expectNotBefore(dueAt * 1_000, [device]);
});

test('the status of a scheduled push is PUSH_SCHEDULED until it is due, even if the schedulers are frozen', async () => {
  const { token } = await fleet.offline();
  const push = await sendTomorrow(stack, token);
  await whileFrozen(stack, bothOf('scheduler'), async () => {
    const dueAt = await makeDueSoon([push]);
    const shown = await until(async () => {
      const requestedAt = Date.now();
      const response = await getPushStatus(stack, push);
      if (response.status === 200) return response;
      expect(response).toMatchObject({ status: 400, code: 'PUSH_SCHEDULED' });
      expect(requestedAt).toBeLessThan(dueAt + CLOCK_SLACK_MS);
      return undefined;
    });
    expect(Date.now()).toBeGreaterThanOrEqual(dueAt - CLOCK_SLACK_MS);
    expect(shown.push?.pending_devices).toEqual([token]);
  });
});

test('200 scheduled pushes that are due at once all arrive, each once', async () => {
  const devices = await fleet.createMany(20, 'online');
  const all = devices.flatMap((device) => Array<MqttDevice>(10).fill(device));
  const pushes = await Promise.all(all.map(({ token }) => sendTomorrow(stack, token)));
  const dueAt = await makeDueSoon(pushes);
  const expected = devices.map((_, at) => pushes.slice(at * 10, (at + 1) * 10));
  await Promise.all(devices.map((device, at) => untilAllArrived([device], expected[at] ?? [])));
  await untilAllArrived(devices, [
    await sendPush(
      stack,
      devices.map(({ token }) => token),
    ),
  ]);
  expect(devices.map(({ arrivals }) => arrivals.length)).toEqual(devices.map(() => 11));
  expectNotBefore(dueAt, devices);
});

test('the topics of a scheduled push have the subscribers of the time when it is due', async () => {
  const [early, late, gone] = await fleet.createMany(3, 'online');
  const topic = randomUUID();
  const change = (verb: string, token = '') =>
    stack.api('POST', `/topics/${verb}`, { token, topics: [topic] });
  await Promise.all([change('subscribe', early?.token), change('subscribe', gone?.token)]);
  const push = await sendTomorrow(stack, `/topics/${topic}`);
  await Promise.all([change('subscribe', late?.token), change('unsubscribe', gone?.token)]);
  await makeDue(mongo, [push]);
  await Promise.all([early?.waitFor(1), late?.waitFor(1)]);
  const last = await sendPush(stack, gone?.token ?? '');
  expect((await gone?.waitFor(1))?.map(({ payload }) => payload)).toEqual([last.payload]);
  expect(early?.arrivals[0]?.payload).toBe(push.payload);
});

test('if everything is down when a scheduled push is due it arrives after the recovery', async () => {
  const device = await fleet.offline();
  const push = await sendTomorrow(stack, device.token);
  const dueAt = await makeDueSoon([push]);
  await crashAndRecover(stack, () => until(() => Date.now() > dueAt));
  await expectWithin(
    CONTINUES_WITHIN_MS,
    device.connect().then(() => device.waitFor(1)),
  );
  expect(payloadsOf(device)).toEqual([push.payload]);
  expectNotBefore(dueAt, [device]);
});
