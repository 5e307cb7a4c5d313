import { expect } from '@jest/globals';
import type { MqttDevice } from '../mqtt-device.ts';
import type { Stack } from '../stack.ts';
import { until } from '../until.ts';
import { fatesOf, type SentPush, sendPush, untilFates } from './pushes.ts';
import type { Scene } from './scene.ts';

/** Guarantee G4: doubles under faults. */
export const DOUBLES_PER_RECIPIENT = 0.001;
const DOUBLES_PER_DEVICE = 16;
const SETTLED_MS = 60_000;

/**
 * Expects that a push to the whole crowd reached every real device and is owed to all the others; then deletes it,
 * and expects that all have ended and the sum is what was accepted (guarantees G1, G3, G4).
 */
export async function expectWhole(
  { stack, mongo, crowd }: Scene,
  push: SentPush,
  plan = 'fault',
): Promise<void> {
  const delivered = crowd.devices.length;
  const others = push.devices - delivered;
  await untilFates(mongo, push, { delivered, inbox: others }, { timeoutMs: SETTLED_MS });
  await expectNoneLost(stack, crowd.devices, push);
  expectFewDoubles(plan, crowd.devices, push);
  expect((await stack.api('DELETE', `/pushes/${push.id}`)).status).toBe(200);
  await untilFates(mongo, push, { delivered, deleted: others });
  const { outcomes, devices } = await fatesOf(mongo, push);
  expect(Object.values(outcomes).reduce((sum, n) => sum + n, 0)).toBe(devices);
}

/** Every device has the push, and whatever else was on its way has come: another push came behind it. */
export async function expectNoneLost(
  stack: Stack,
  devices: readonly MqttDevice[],
  push: SentPush,
): Promise<void> {
  const tokens = devices.map(({ token }) => token);
  const last = await sendPush(stack, tokens);
  const isHere = (device: MqttDevice) => countOf(device, last) > 0;
  await until(() => devices.every(isHere), { timeoutMs: SETTLED_MS, what: 'the last push' });
  expect(devices.filter((device) => countOf(device, push) === 0)).toEqual([]);
}

/** Counts arrivals beyond the first, prints them, and holds them to guarantee G4. */
export function expectFewDoubles(
  plan: string,
  devices: readonly MqttDevice[],
  push: SentPush,
  bound = Math.floor(push.devices * DOUBLES_PER_RECIPIENT),
): void {
  const doubles = devices.map((device) => Math.max(0, countOf(device, push) - 1));
  const sum = doubles.reduce((total, n) => total + n, 0);
  process.stdout.write(`doubles ${plan}: ${sum} of ${push.devices} recipients\n`);
  expect(sum).toBeLessThanOrEqual(bound);
  expect(Math.max(...doubles)).toBeLessThanOrEqual(DOUBLES_PER_DEVICE);
}

/** How often a push has arrived at a device. */
export function countOf({ arrivals }: MqttDevice, { payload }: SentPush): number {
  return arrivals.filter((arrival) => arrival.payload === payload).length;
}
