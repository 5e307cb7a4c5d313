import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { isMidway, sendPush, untilMidway, workStates } from '../support/faults/pushes.ts';
import { openScene, type Scene } from '../support/faults/scene.ts';
import { expectWhole } from '../support/faults/whole.ts';
import { until } from '../support/until.ts';

const CROWD = { registered: 30_000, real: 60 };
/** Devices that keep a few batches open by keeping their receipts back. */
const HOLDERS = 6;
/** Three leases of a worker. */
const WORKER_FROZEN_MS = 18_000;
/** A BullMQ worker asks for a job for so long. */
const BLOCKED_MS = 5_500;
const GATEWAY_FROZEN_MS = 10_000;

let scene: Scene;
beforeAll(async () => {
  scene = await openScene(CROWD, { deliveryWorkers: 2 });
});
afterAll(() => scene?.close());

test('a worker that was frozen for three leases finds its batches taken over', async () => {
  const { stack, mongo, crowd } = scene;
  for (const device of crowd.devices) device.holdReceipts();
  // The other one joins in afterwards, so that the frozen one surely holds what is open.
  stack.kill('delivery-worker', 'SIGSTOP', 1);
  // Until Redis has answered what it waits for, a job's marker could be given to it.
  await sleep(BLOCKED_MS);
  const push = await sendPush(stack, crowd.tokens);
  await untilMidway(mongo, push);
  stack.kill('delivery-worker', 'SIGSTOP');
  stack.kill('delivery-worker', 'SIGCONT', 1);
  const frozenAt = performance.now();
  expect(isMidway(await workStates(mongo, push))).toBe(true);
  for (const device of crowd.devices) device.releaseReceipts();
  const takenOver = { push: push.id, 'work.tries': { $gt: 1 } };
  await until(() => mongo.db.collection('batches').findOne(takenOver), { timeoutMs: 15_000 });
  await sleep(WORKER_FROZEN_MS - (performance.now() - frozenAt));
  stack.kill('delivery-worker', 'SIGCONT');
  await expectWhole(scene, push, 'worker frozen');
});

test('a gateway that was frozen goes on where it was', async () => {
  const { stack, mongo, crowd } = scene;
  const holders = crowd.devices.slice(0, HOLDERS);
  for (const device of holders) device.holdReceipts();
  const push = await sendPush(stack, crowd.tokens);
  await untilMidway(mongo, push);
  stack.kill('device-gateway', 'SIGSTOP');
  expect(isMidway(await workStates(mongo, push))).toBe(true);
  for (const device of holders) device.releaseReceipts();
  await sleep(GATEWAY_FROZEN_MS);
  stack.kill('device-gateway', 'SIGCONT');
  await expectWhole(scene, push, 'gateway frozen');
});
