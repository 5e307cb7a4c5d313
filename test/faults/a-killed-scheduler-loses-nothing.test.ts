import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from 'ioredis';
import { isMidway, sendPush, untilMidway, workStates } from '../support/faults/pushes.ts';
import { openScene, type Scene } from '../support/faults/scene.ts';
import { countOf, expectWhole } from '../support/faults/whole.ts';
import { openRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

const CROWD = { registered: 30_000, real: 20 };
const DUE_AFTER_SECONDS = 3;
/** Guarantee G7. */
const RECOVERED_WITHIN_MS = 10_000;

let scene: Scene;
let redis: Redis;
beforeAll(async () => {
  scene = await openScene(CROWD);
  redis = await openRedis(scene.stack.dev);
});
afterAll(async () => {
  redis?.disconnect();
  await scene?.close();
});

test('a push that came due meanwhile goes out soon after it is back, and not early', async () => {
  const { stack, crowd } = scene;
  const [device] = crowd.devices;
  if (device === undefined) throw new Error('a crowd without devices');
  const schedule = Math.ceil(Date.now() / 1_000) + DUE_AFTER_SECONDS;
  const push = await sendPush(stack, device.token, { schedule });
  await stack.waitForRestart('scheduler', stack.kill('scheduler', 'SIGKILL'));
  expect(countOf(device, push) > 0 && Date.now() < schedule * 1_000).toBe(false);
  await until(() => countOf(device, push) > 0, {
    timeoutMs: Math.max(0, schedule * 1_000 - Date.now()) + RECOVERED_WITHIN_MS,
  });
  expect(Date.now()).toBeGreaterThanOrEqual(schedule * 1_000);
});

test('jobs that were lost while nobody could look for them are found again', async () => {
  const { stack, mongo, crowd } = scene;
  // Who keeps a receipt back keeps a batch open, however quick the machine is.
  for (const device of crowd.devices) device.holdReceipts();
  const push = await sendPush(stack, crowd.tokens);
  await untilMidway(mongo, push);
  const old = stack.kill('scheduler', 'SIGKILL');
  await redis.flushall();
  expect(isMidway(await workStates(mongo, push))).toBe(true);
  for (const device of crowd.devices) device.releaseReceipts();
  await stack.waitForRestart('scheduler', old);
  await expectWhole(scene, push, 'scheduler killed and Redis emptied');
});
