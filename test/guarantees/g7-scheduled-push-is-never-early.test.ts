import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { untilAllArrived } from '../support/faults/expect-complete.ts';
import { type SentPush, sendPush } from '../support/faults/pushes.ts';
import { crashAndRecover } from '../support/guarantees/crash-stack.ts';
import { payloadsOf } from '../support/guarantees/devices.ts';
import { lendTo } from '../support/guarantees/lend-to.ts';
import { makeDue, sendTomorrow } from '../support/guarantees/schedule.ts';
import { getPushStatus } from '../support/guarantees/status.ts';
import { bothOf, whileFrozen } from '../support/guarantees/while-frozen.ts';
import type { TestMongo } from '../support/mongo.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** How far a process's idea of MongoDB's time may be off on a busy machine. */
const CLOCK_SLACK_MS = 100;

let stack: Stack;
let mongo: TestMongo;
const fleet = lendTo(
  () => useKillableStack(),
  (...lent) => {
    [stack, mongo] = lent;
  },
);

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

test('it arrives when it is due, and not before', async () => {
  const device = await fleet.online();
  const dueAt = Math.ceil(Date.now() / 1_000) + 2;
  const push = await sendPush(stack, device.token, { schedule: dueAt });
  await device.waitFor(1);
  expect(payloadsOf(device)).toEqual([push.payload]);
  expectNotBefore(dueAt * 1_000, [device]);
});

test('its status is PUSH_SCHEDULED until it is due, even if the schedulers are frozen', async () => {
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

test('200 that are due at once all arrive, each once', async () => {
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

test('its topics have the subscribers of the time when it is due', async () => {
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

test('if everything is down at its time it arrives after the recovery', async () => {
  const device = await fleet.offline();
  const push = await sendTomorrow(stack, device.token);
  const dueAt = await makeDueSoon([push]);
  await crashAndRecover(stack, () => until(() => Date.now() > dueAt));
  await device.connect();
  await device.waitFor(1);
  expect(payloadsOf(device)).toEqual([push.payload]);
  expectNotBefore(dueAt, [device]);
});
