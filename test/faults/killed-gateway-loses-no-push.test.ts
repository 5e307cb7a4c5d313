import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { connectUnacknowledging, keepConnected } from '../support/faults/device-pool.ts';
import { countArrivals, expectComplete } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import {
  countBatchStates,
  isPartlyClosed,
  sendPush,
  untilOutcomes,
  untilPartlyClosed,
} from '../support/faults/pushes.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import { until } from '../support/until.ts';

const POOL_SIZE = { registered: 30_000, real: 60 };
const UNACKNOWLEDGING = 6;
const GATEWAY = 'device-gateway';
const INBOX_SIZE = 50;
/** Pushes without a receipt that a device may have at a time. */
const WINDOW = 16;
/** Guarantee G11: a crashed gateway's devices are seen offline so soon. */
const CRASH_SEEN_MS = 15_000;

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture(POOL_SIZE);
});
afterEach(() => {
  for (const device of unacknowledging()) device.releaseReceipts();
});
afterAll(() => fixture?.close());

/** Devices whose receipts never reach the gateway that is killed. */
function unacknowledging() {
  return fixture.pool.devices.slice(0, UNACKNOWLEDGING);
}

test('after it has sent a push and before it has replied', async () => {
  const { stack, mongo, pool } = fixture;
  for (const device of unacknowledging()) device.holdReceipts();
  const push = await sendPush(stack, pool.tokens);
  await until(() => unacknowledging().some((device) => countArrivals(device, push) > 0), {
    everyMs: 2,
  });
  await untilPartlyClosed(mongo, push);
  stack.kill(GATEWAY, 'SIGKILL');
  expect(isPartlyClosed(await countBatchStates(mongo, push))).toBe(true);
  for (const device of unacknowledging()) device.releaseReceipts();
  await expectComplete(fixture, push, 'gateway killed before its reply');
});

test('told to stop in the middle of a fan-out, it doubles nothing', async () => {
  const { stack, mongo, pool } = fixture;
  const holder = await connectUnacknowledging(stack);
  const push = await sendPush(stack, [...pool.tokens, holder.token]);
  await untilPartlyClosed(mongo, push);
  const old = stack.kill(GATEWAY, 'SIGTERM');
  expect(isPartlyClosed(await countBatchStates(mongo, push))).toBe(true);
  holder.cut();
  await stack.waitForRestart(GATEWAY, old);
  await expectComplete(fixture, push, 'gateway told to stop');
  expect(pool.devices.filter((device) => countArrivals(device, push) > 1)).toEqual([]);
});

test('in the middle of an inbox, of which at most a window comes twice', async () => {
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
  const link = keepConnected([device]);
  for (const push of pushes) await untilOutcomes(mongo, push, { delivered: 1 });
  expect(device.arrivals.length - INBOX_SIZE).toBeLessThanOrEqual(WINDOW);
  await link.stop();
});

test('its devices are seen offline by the end of its lease', async () => {
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
