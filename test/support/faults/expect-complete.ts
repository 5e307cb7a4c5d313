import { expect } from '@jest/globals';
import type { MqttDevice } from '../mqtt-device.ts';
import type { Stack } from '../stack.ts';
import { until } from '../until.ts';
import type { Fixture } from './fixture.ts';
import { pushStatusOf, type SentPush, sendPush, untilOutcomes } from './pushes.ts';

/** Guarantee G4: duplicates under faults. */
export const MAX_DUPLICATES_PER_RECIPIENT = 0.001;
/** Guarantee G4: pushes that a device may get again. */
export const MAX_DUPLICATES_PER_DEVICE = 16;
export const SETTLED_MS = 60_000;

/**
 * Expects that a push to the whole pool reached every real device and is pending for all the others; then deletes it,
 * and expects that all have ended and the sum is what was accepted (guarantees G1, G3, G4).
 */
export async function expectComplete(
  { stack, mongo, pool }: Omit<Fixture, 'close'>,
  push: SentPush,
  label = 'fault',
): Promise<void> {
  const delivered = pool.devices.length;
  const others = push.devices - delivered;
  await untilOutcomes(mongo, push, { delivered, inbox: others }, { timeoutMs: SETTLED_MS });
  await expectNoneLost(stack, pool.devices, push);
  expectFewDuplicates(label, pool.devices, push);
  expect((await stack.api('DELETE', `/pushes/${push.id}`)).status).toBe(200);
  await untilOutcomes(mongo, push, { delivered, deleted: others });
  const { outcomes, devices } = await pushStatusOf(mongo, push);
  expect(Object.values(outcomes).reduce((sum, n) => sum + n, 0)).toBe(devices);
}

/** Every device has the push, and everything else in flight has arrived: another push arrived after it. */
export async function expectNoneLost(
  stack: Pick<Stack, 'api'>,
  devices: readonly MqttDevice[],
  push: SentPush,
): Promise<void> {
  await untilAnotherArrived(stack, devices);
  expect(devices.filter((device) => countArrivals(device, push) === 0)).toEqual([]);
}

/** Sends a push, and waits until it has arrived everywhere: with it everything that was in flight before. */
export async function untilAnotherArrived(
  stack: Pick<Stack, 'api'>,
  devices: readonly MqttDevice[],
): Promise<void> {
  const tokens = devices.map(({ token }) => token);
  await untilAllArrived(devices, [await sendPush(stack, tokens)]);
}

/** Waits until each device has all of some pushes. */
export async function untilAllArrived(
  devices: readonly MqttDevice[],
  pushes: readonly Pick<SentPush, 'payload'>[],
): Promise<void> {
  const hasAll = ({ arrivals }: MqttDevice) => {
    const arrived = new Set(arrivals.map(({ payload }) => payload));
    return pushes.every(({ payload }) => arrived.has(payload));
  };
  const what = `${pushes.length} pushes at ${devices.length} devices`;
  await until(() => devices.every(hasAll), { timeoutMs: SETTLED_MS, what });
}

/** Counts arrivals beyond the first, prints them, and compares them with guarantee G4. */
export function expectFewDuplicates(
  label: string,
  devices: readonly MqttDevice[],
  push: SentPush,
  limit = Math.floor(push.devices * MAX_DUPLICATES_PER_RECIPIENT),
): void {
  const duplicates = devices.map((device) => Math.max(0, countArrivals(device, push) - 1));
  const sum = duplicates.reduce((total, n) => total + n, 0);
  process.stdout.write(`duplicates ${label}: ${sum} of ${push.devices} recipients\n`);
  expect(sum).toBeLessThanOrEqual(limit);
  expect(Math.max(...duplicates)).toBeLessThanOrEqual(MAX_DUPLICATES_PER_DEVICE);
}

/** How often a push has arrived at a device. */
export function countArrivals(
  { arrivals }: MqttDevice,
  { payload }: Pick<SentPush, 'payload'>,
): number {
  return arrivals.filter((arrival) => arrival.payload === payload).length;
}
