import { expect } from '@jest/globals';
import type { MqttDevice } from '../mqtt-device.ts';
import { connectUnacknowledging } from './device-pool.ts';
import { countArrivals, expectComplete } from './expect-complete.ts';
import { type Fixture, openFixture } from './fixture.ts';
import {
  countBatchStates,
  isPartlyClosed,
  type SentPush,
  sendPush,
  untilPartlyClosed,
} from './pushes.ts';

const POOL_SIZE = { registered: 30_000, real: 60 };
const UNACKNOWLEDGING = 6;

/** Opens a fixture whose pool is so large that a process can be killed in the middle of a push. */
export function openLargeFixture(): Promise<Fixture> {
  return openFixture(POOL_SIZE);
}

/** Returns the devices that keep a few batches open by delaying their receipts. */
export function unacknowledging({ pool }: Fixture): MqttDevice[] {
  return pool.devices.slice(0, UNACKNOWLEDGING);
}

/** Makes these devices delay their receipts from now on. */
export function holdReceipts(fixture: Fixture): void {
  for (const device of unacknowledging(fixture)) device.holdReceipts();
}

/** Makes them acknowledge again, including earlier arrivals. */
export function releaseReceipts(fixture: Fixture): void {
  for (const device of unacknowledging(fixture)) device.releaseReceipts();
}

/** Expects some batches of a push to be closed and some to be open. */
export async function expectPartlyClosed({ mongo }: Fixture, push: SentPush): Promise<void> {
  expect(isPartlyClosed(await countBatchStates(mongo, push))).toBe(true);
}

/** Kills a process in the middle of a push whose receipts are delayed, and expects the push to be complete. */
export async function killMidway(
  fixture: Fixture,
  service: string,
  push: SentPush,
  label: string,
): Promise<void> {
  await untilPartlyClosed(fixture.mongo, push);
  fixture.stack.kill(service, 'SIGKILL');
  await expectPartlyClosed(fixture, push);
  releaseReceipts(fixture);
  await expectComplete(fixture, push, label);
}

/** Stops a process by a signal in the middle of a push, and expects the push to be complete and at no device twice. */
export async function stopMidway(fixture: Fixture, service: string, label: string): Promise<void> {
  const { stack, mongo, pool } = fixture;
  const holder = await connectUnacknowledging(stack);
  const push = await sendPush(stack, [...pool.tokens, holder.token]);
  await untilPartlyClosed(mongo, push);
  const old = stack.kill(service, 'SIGTERM');
  await expectPartlyClosed(fixture, push);
  holder.cut();
  await stack.waitForRestart(service, old);
  await expectComplete(fixture, push, label);
  expect(pool.devices.filter((device) => countArrivals(device, push) > 1)).toEqual([]);
}
