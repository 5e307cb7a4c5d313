import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { holdOpen, keepConnected } from '../support/faults/crowd.ts';
import {
  isMidway,
  sendPush,
  untilFates,
  untilMidway,
  workStates,
} from '../support/faults/pushes.ts';
import { openScene, type Scene } from '../support/faults/scene.ts';
import { countOf, expectWhole } from '../support/faults/whole.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import { until } from '../support/until.ts';

const CROWD = { registered: 30_000, real: 60 };
const HOLDERS = 6;
const GATEWAY = 'device-gateway';
const INBOX = 50;
/** Pushes without a receipt that a device may have at a time. */
const WINDOW = 16;
/** Guarantee G11: a crashed gateway's devices are seen offline so soon. */
const CRASH_SEEN_MS = 15_000;

let scene: Scene;
beforeAll(async () => {
  scene = await openScene(CROWD);
});
afterEach(() => {
  for (const device of holders()) device.releaseReceipts();
});
afterAll(() => scene?.close());

/** Devices whose receipts never reach the gateway that is killed. */
function holders() {
  return scene.crowd.devices.slice(0, HOLDERS);
}

test('after it has sent a push and before it has replied', async () => {
  const { stack, mongo, crowd } = scene;
  for (const device of holders()) device.holdReceipts();
  const push = await sendPush(stack, crowd.tokens);
  await until(() => holders().some((device) => countOf(device, push) > 0), { everyMs: 2 });
  await untilMidway(mongo, push);
  stack.kill(GATEWAY, 'SIGKILL');
  expect(isMidway(await workStates(mongo, push))).toBe(true);
  for (const device of holders()) device.releaseReceipts();
  await expectWhole(scene, push, 'gateway killed before its reply');
});

test('told to stop in the middle of a fan-out, it doubles nothing', async () => {
  const { stack, mongo, crowd } = scene;
  const holder = await holdOpen(stack);
  const push = await sendPush(stack, [...crowd.tokens, holder.token]);
  await untilMidway(mongo, push);
  const old = stack.kill(GATEWAY, 'SIGTERM');
  expect(isMidway(await workStates(mongo, push))).toBe(true);
  holder.cut();
  await stack.waitForRestart(GATEWAY, old);
  await expectWhole(scene, push, 'gateway told to stop');
  expect(crowd.devices.filter((device) => countOf(device, push) > 1)).toEqual([]);
});

test('in the middle of an inbox, of which at most a window comes twice', async () => {
  const { stack, mongo } = scene;
  const device = await newMqttDevice(stack.dev);
  const pushes = [];
  for (let n = 0; n < INBOX; n += 1) pushes.push(await sendPush(stack, device.token));
  for (const push of pushes) await untilFates(mongo, push, { inbox: 1 });
  device.holdReceipts();
  await device.connect();
  await device.waitFor(WINDOW);
  stack.kill(GATEWAY, 'SIGKILL');
  device.releaseReceipts();
  const link = keepConnected([device]);
  for (const push of pushes) await untilFates(mongo, push, { delivered: 1 });
  expect(device.arrivals.length - INBOX).toBeLessThanOrEqual(WINDOW);
  await link.stop();
});

test('its devices are seen offline by the end of its lease', async () => {
  const { stack } = scene;
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
  const { json } = await scene.stack.api<Presence>('POST', '/devices/presence', {
    tokens: [token],
  });
  return json.presence[0]?.online;
}

interface Presence {
  presence: { online: boolean }[];
}
