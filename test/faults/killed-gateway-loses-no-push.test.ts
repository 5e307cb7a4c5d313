import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { keepConnected } from '../support/faults/device-pool.ts';
import { countArrivals } from '../support/faults/expect-complete.ts';
import type { Fixture } from '../support/faults/fixture.ts';
import {
  holdReceipts,
  killMidway,
  openLargeFixture,
  releaseReceipts,
  stopMidway,
  unacknowledging,
} from '../support/faults/midway.ts';
import { sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import { until } from '../support/until.ts';

const GATEWAY = 'device-gateway';
const INBOX_SIZE = 50;
/** Pushes without a receipt that a device may have at a time. */
const WINDOW = 16;
/** Guarantee G11: a crashed gateway's devices are seen offline so soon. */
const CRASH_SEEN_MS = 15_000;

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openLargeFixture();
});
afterEach(() => releaseReceipts(fixture));
afterAll(() => fixture?.close());

test('after it has sent a push and before it has replied', async () => {
  holdReceipts(fixture);
  const push = await sendPush(fixture.stack, fixture.pool.tokens);
  const hasArrived = () => unacknowledging(fixture).some((one) => countArrivals(one, push) > 0);
  await until(hasArrived, { everyMs: 2 });
  await killMidway(fixture, GATEWAY, push, 'gateway killed before its reply');
});

test('stopped by a signal in the middle of a fan-out, it sends no duplicate', () =>
  stopMidway(fixture, GATEWAY, 'gateway stopped'));

test('in the middle of an inbox, of which at most one window is sent twice', async () => {
  const { stack, mongo } = fixture;
  const device = await newMqttDevice(stack.dev);
  const pushes = [];
  for (let n = 0; n < INBOX_SIZE; n += 1) pushes.push(await sendPush(stack, device.token));
  for (const push of pushes) await untilOutcomes(mongo, push, { inbox: 1 });
  device.holdReceipts();
  await device.connect();
  await device.waitFor(WINDOW);
  stack.kill(GATEWAY, 'SIGKILL');
  device.releaseReceipts();
  const connection = keepConnected([device]);
  for (const push of pushes) await untilOutcomes(mongo, push, { delivered: 1 });
  expect(device.arrivals.length - INBOX_SIZE).toBeLessThanOrEqual(WINDOW);
  await connection.stop();
});

test('its devices are offline by the end of its lease', async () => {
  const { stack } = fixture;
  const device = await newMqttDevice(stack.dev);
  await device.connect();
  await until(async () => await isOnline(device.token));
  const restarted = stack.waitForRestart(GATEWAY, stack.kill(GATEWAY, 'SIGKILL'));
  await until(async () => !(await isOnline(device.token)), { timeoutMs: CRASH_SEEN_MS });
  await restarted;
  await device.connect();
  await until(async () => await isOnline(device.token));
  await device.disconnect();
});

async function isOnline(token: string): Promise<boolean | undefined> {
  const { json } = await fixture.stack.api<Presence>('POST', '/devices/presence', {
    tokens: [token],
  });
  return json.presence[0]?.online;
}

interface Presence {
  presence: { online: boolean }[];
}
