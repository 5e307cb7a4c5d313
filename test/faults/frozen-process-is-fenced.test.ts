import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { expectComplete } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import {
  countBatchStates,
  isPartlyClosed,
  sendPush,
  untilPartlyClosed,
} from '../support/faults/pushes.ts';
import { until } from '../support/until.ts';

const POOL_SIZE = { registered: 30_000, real: 60 };
/** Devices that keep a few batches open by delaying their receipts. */
const UNACKNOWLEDGING = 6;
/** Three leases of a worker. */
const WORKER_FROZEN_MS = 18_000;
/** A BullMQ worker waits for a job for so long. */
const BLOCKED_MS = 5_500;
const GATEWAY_FROZEN_MS = 10_000;

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture(POOL_SIZE, { deliveryWorkers: 2 });
});
afterAll(() => fixture?.close());

test('the batches of a worker that is frozen for three leases are taken over', async () => {
  const { stack, mongo, pool } = fixture;
  for (const device of pool.devices) device.holdReceipts();
  // The other one joins in afterwards, so that the frozen one has claimed the open batches.
  stack.kill('delivery-worker', 'SIGSTOP', 1);
  // Until Redis has responded to its blocking command, a job's marker could be given to it.
  await sleep(BLOCKED_MS);
  const push = await sendPush(stack, pool.tokens);
  await untilPartlyClosed(mongo, push);
  stack.kill('delivery-worker', 'SIGSTOP');
  stack.kill('delivery-worker', 'SIGCONT', 1);
  const frozenAt = performance.now();
  expect(isPartlyClosed(await countBatchStates(mongo, push))).toBe(true);
  for (const device of pool.devices) device.releaseReceipts();
  const takenOver = { push: push.id, 'work.tries': { $gt: 1 } };
  await until(() => mongo.db.collection('batches').findOne(takenOver), { timeoutMs: 15_000 });
  await sleep(WORKER_FROZEN_MS - (performance.now() - frozenAt));
  stack.kill('delivery-worker', 'SIGCONT');
  await expectComplete(fixture, push, 'worker frozen');
});

test('a gateway that was frozen continues where it was', async () => {
  const { stack, mongo, pool } = fixture;
  const holders = pool.devices.slice(0, UNACKNOWLEDGING);
  for (const device of holders) device.holdReceipts();
  const push = await sendPush(stack, pool.tokens);
  await untilPartlyClosed(mongo, push);
  stack.kill('device-gateway', 'SIGSTOP');
  expect(isPartlyClosed(await countBatchStates(mongo, push))).toBe(true);
  for (const device of holders) device.releaseReceipts();
  await sleep(GATEWAY_FROZEN_MS);
  stack.kill('device-gateway', 'SIGCONT');
  await expectComplete(fixture, push, 'gateway frozen');
});
