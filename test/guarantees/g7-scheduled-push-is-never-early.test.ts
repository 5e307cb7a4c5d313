import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { type SentPush, sendPush } from '../support/faults/pushes.ts';
import { crashAndRecover } from '../support/guarantees/crash-stack.ts';
import { createFleet, payloadsOf } from '../support/guarantees/devices.ts';
import { type MongoTime, readMongoTime } from '../support/guarantees/mongo-time.ts';
import { startStackWithoutLimits } from '../support/guarantees/start-unlimited.ts';
import { getPushStatus } from '../support/guarantees/status.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const AFTER_RECOVERY_MS = 10_000;
/** How far a process's idea of MongoDB's time may be off on a busy machine. */
const CLOCK_SLACK_MS = 100;

let stack: Stack;
let mongo: TestMongo;
let time: MongoTime;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  stack = await startStackWithoutLimits();
  mongo = await openMongo(stack.dev);
  time = await readMongoTime(mongo);
});
afterEach(() => fleet.disconnectAll());
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
});

/** Unix time in seconds, at least so many whole seconds ahead. */
function secondsAhead(seconds: number): number {
  return Math.ceil(time.latest() / 1_000) + seconds;
}

/** Waits until it is surely later than a unix time in seconds. */
function untilPast(seconds: number): Promise<true> {
  return until(() => time.earliest() > seconds * 1_000, { timeoutMs: 20_000, what: 'the time' });
}

test('it arrives when it is due, and not before', async () => {
  const device = await fleet.online();
  const schedule = secondsAhead(2);
  const push = await sendPush(stack, device.token, { schedule });
  const [arrival] = await device.waitFor(1);
  expect(arrival?.payload).toBe(push.payload);
  expect(time.latest(arrival?.receivedAtMs)).toBeGreaterThanOrEqual(schedule * 1_000);
});

test('its status is PUSH_SCHEDULED until it is due, even if the scheduler is frozen', async () => {
  const { token } = await fleet.offline();
  const schedule = secondsAhead(2);
  const push = await sendPush(stack, token, { schedule });
  await whileFrozen(stack, [{ service: 'scheduler' }], async () => {
    const shown = await until(async () => {
      const requestedAt = time.latest();
      const response = await getPushStatus(stack, push);
      if (response.status === 200) return response;
      expect(response).toMatchObject({ status: 400, code: 'PUSH_SCHEDULED' });
      expect(requestedAt).toBeLessThan(schedule * 1_000 + CLOCK_SLACK_MS);
      return undefined;
    });
    expect(time.latest()).toBeGreaterThanOrEqual(schedule * 1_000 - CLOCK_SLACK_MS);
    expect(shown.push?.pending_devices).toEqual([token]);
  });
});

test('200 that are due in one second all arrive, each once', async () => {
  const devices = await fleet.createMany(20, 'online');
  const schedule = secondsAhead(5);
  const pushes = await Promise.all(
    Array.from({ length: 200 }, async (_, i) => {
      const device = devices[i % devices.length] as (typeof devices)[number];
      return { device, push: await sendPush(stack, device.token, { schedule }) };
    }),
  );
  await until(() => devices.every(({ arrivals }) => arrivals.length >= 10), { timeoutMs: 20_000 });
  for (const { device, push } of pushes) expect(payloadsOf(device)).toContain(push.payload);
  const arrivals = devices.flatMap((device) => device.arrivals);
  expect(arrivals).toHaveLength(200);
  const first = Math.min(...arrivals.map(({ receivedAtMs }) => receivedAtMs));
  expect(time.latest(first)).toBeGreaterThanOrEqual(schedule * 1_000);
});

test('its topics have the subscribers of the time when it is due', async () => {
  const [early, late, gone] = await fleet.createMany(3, 'online');
  const topic = randomUUID();
  const change = (verb: string, token = '') =>
    stack.api('POST', `/topics/${verb}`, { token, topics: [topic] });
  await Promise.all([change('subscribe', early?.token), change('subscribe', gone?.token)]);
  const push = await sendPush(stack, `/topics/${topic}`, { schedule: secondsAhead(2) });
  await Promise.all([change('subscribe', late?.token), change('unsubscribe', gone?.token)]);
  await Promise.all([early?.waitFor(1), late?.waitFor(1)]);
  const last = await sendPush(stack, gone?.token ?? '');
  expect((await gone?.waitFor(1))?.map(({ payload }) => payload)).toEqual([last.payload]);
  expect(early?.arrivals[0]?.payload).toBe(push.payload);
});

test('if everything is down at its time it arrives within 10 s of the recovery', async () => {
  const device = await fleet.offline();
  const schedule = secondsAhead(3);
  const push: SentPush = await sendPush(stack, device.token, { schedule });
  await crashAndRecover(stack, () => untilPast(schedule + 1));
  const recoveredAt = performance.now();
  await device.connect();
  const [arrival] = await device.waitFor(1);
  expect(arrival?.payload).toBe(push.payload);
  expect((arrival?.receivedAtMs ?? 0) - recoveredAt).toBeLessThan(AFTER_RECOVERY_MS);
});
