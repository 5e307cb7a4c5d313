import { expect } from '@jest/globals';
import type { Batch } from '../../../packages/store/src/documents.ts';
import type { MqttDevice } from '../mqtt-device.ts';
import { type PollOptions, until } from '../until.ts';
import { countArrivals } from './expect-complete.ts';
import { ENTRIES_KEY, type JoinedPushes } from './joined-pushes.ts';
import { type SentPush, sendPush, untilOutcomes } from './pushes.ts';

/** Leases end within, and ticks of the scheduler. */
const TAKEN_OVER: PollOptions = { timeoutMs: 40_000, everyMs: 5 };

/** Sends a push that waits in the list, since no job is open. Returns it with its entry. */
export async function sendWaiting(
  joined: JoinedPushes,
  to: string,
  fields: Record<string, unknown> = {},
): Promise<[SentPush, string]> {
  await joined.prime();
  const push = await joined.sendClaimed(to, fields);
  const findEntry = async () => (await joined.redis.lrange(ENTRIES_KEY, 0, -1))[0];
  const entry = await until(findEntry, { everyMs: 2, what: 'the entry' });
  expect(entry).toContain(`${push.id} {"claim":"`);
  return [push, entry];
}

/** Waits until a worker has claimed a push. */
export async function untilClaimedByWorker(joined: JoinedPushes, push: SentPush): Promise<void> {
  const isClaimed = async () => (await joined.readBatch(push)).reply !== undefined;
  await until(isClaimed, { ...TAKEN_OVER, what: 'the claim of a worker' });
}

/**
 * Expects one outcome of a push to one device, and how often the device has it when everything in flight has arrived.
 * Returns the batch at the end.
 */
export async function expectDelivered(
  joined: JoinedPushes,
  device: MqttDevice,
  push: SentPush,
  most = 1,
): Promise<Batch> {
  const { mongo, set } = joined;
  await untilOutcomes(mongo, push, { delivered: 1 });
  const last = await sendPush(set, device.token);
  await untilOutcomes(mongo, last, { delivered: 1 });
  const arrivals = countArrivals(device, push);
  expect(arrivals).toBeGreaterThanOrEqual(1);
  expect(arrivals).toBeLessThanOrEqual(most);
  await untilOutcomes(mongo, push, { delivered: 1 });
  await until(async () => (await joined.countRows(push)) === 0, { what: 'no row' });
  return joined.readBatch(push);
}

/** Expects that the initial claim was released or replaced: nobody has waited for its end. */
export function expectClaimedAtOnce(batch: Batch): void {
  expect(batch).toMatchObject({ tries: 2, reply: expect.any(String) });
  expect(batch.lapsed).toBeUndefined();
}

/** Expects that a worker has claimed the push when its initial claim had ended. */
export function expectClaimedAfterLease(batch: Batch): void {
  expect(batch).toMatchObject({ tries: 2, lapsed: 1, reply: expect.any(String) });
}
