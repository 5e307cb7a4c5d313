import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { countArrivals, expectComplete } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import {
  countBatchStates,
  isPartlyClosed,
  sendPush,
  untilPartlyClosed,
} from '../support/faults/pushes.ts';
import { emptyRedis, openRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

const POOL_SIZE = { registered: 30_000, real: 20 };
const DUE_AFTER_SECONDS = 3;
/** Guarantee G7. */
const RECOVERED_WITHIN_MS = 10_000;

let fixture: Fixture;
let redis: Redis;
beforeAll(async () => {
  fixture = await openFixture(POOL_SIZE);
  redis = await openRedis(fixture.stack.dev);
});
afterAll(async () => {
  redis?.disconnect();
  await fixture?.close();
});

test('a push that fell due meanwhile is sent soon after the restart, and not early', async () => {
  const { stack, pool } = fixture;
  const [device] = pool.devices;
  if (device === undefined) throw new Error('a pool without devices');
  const schedule = Math.ceil(Date.now() / 1_000) + DUE_AFTER_SECONDS;
  const push = await sendPush(stack, device.token, { schedule });
  await stack.waitForRestart('scheduler', stack.kill('scheduler', 'SIGKILL'));
  expect(countArrivals(device, push) > 0 && Date.now() < schedule * 1_000).toBe(false);
  await until(() => countArrivals(device, push) > 0, {
    timeoutMs: Math.max(0, schedule * 1_000 - Date.now()) + RECOVERED_WITHIN_MS,
  });
  expect(Date.now()).toBeGreaterThanOrEqual(schedule * 1_000);
});

test('jobs that were lost while no scheduler ran are added again', async () => {
  const { stack, mongo, pool } = fixture;
  // A device that delays its receipt keeps a batch open, on a fast machine too.
  for (const device of pool.devices) device.holdReceipts();
  const push = await sendPush(stack, pool.tokens);
  await untilPartlyClosed(mongo, push);
  const old = stack.kill('scheduler', 'SIGKILL');
  await emptyRedis(redis);
  expect(isPartlyClosed(await countBatchStates(mongo, push))).toBe(true);
  for (const device of pool.devices) device.releaseReceipts();
  await stack.waitForRestart('scheduler', old);
  await expectComplete(fixture, push, 'scheduler killed and Redis emptied');
});
