import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { countArrivals, expectComplete } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import {
  countBatchStates,
  expectPartlyClosed,
  sendPush,
  untilPartlyClosed,
} from '../support/faults/pushes.ts';
import { emptyRedis, openRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

const POOL_SIZE = { registered: 60_000, real: 60 };
const DUE_AFTER_SECONDS = 3;

let fixture: Fixture;
let redis: Redis;
beforeAll(async () => {
  fixture = await openFixture(POOL_SIZE);
  redis = await openRedis(fixture.stack.dev);
}, 180_000);
afterAll(async () => {
  redis?.disconnect();
  await fixture?.close();
});

test('three times in the middle of one fan-out', async () => {
  const { stack, mongo, pool } = fixture;
  const push = await sendPush(stack, pool.tokens);
  let { closed } = await untilPartlyClosed(mongo, push);
  for (let times = 0; times < 3; times += 1) {
    await emptyRedis(redis);
    await expectPartlyClosed(mongo, push);
    const before = closed;
    // Some more is done before it is emptied again, so that each time something else is lost.
    const continues = async () => {
      closed = (await countBatchStates(mongo, push)).closed;
      return closed > before;
    };
    await until(continues, { timeoutMs: 60_000, everyMs: 5 });
  }
  await expectComplete(fixture, push, 'Redis emptied three times');
});

test('while no scheduler runs, whose successor adds the lost jobs again', async () => {
  const { stack, mongo, pool } = fixture;
  // A device that delays its receipt keeps a batch open, on a fast machine too.
  for (const device of pool.devices) device.holdReceipts();
  const push = await sendPush(stack, pool.tokens.slice(0, POOL_SIZE.registered / 2));
  await untilPartlyClosed(mongo, push);
  const old = stack.kill('scheduler', 'SIGKILL');
  await emptyRedis(redis);
  await expectPartlyClosed(mongo, push);
  for (const device of pool.devices) device.releaseReceipts();
  await stack.waitForRestart('scheduler', old);
  await expectComplete(fixture, push, 'scheduler killed and Redis emptied');
});

test('nor does a killed scheduler: a push that fell due meanwhile is sent soon after the restart, and not early', async () => {
  const { stack, pool } = fixture;
  const [device] = pool.devices;
  if (device === undefined) throw new Error('a pool without devices');
  const schedule = Math.ceil(Date.now() / 1_000) + DUE_AFTER_SECONDS;
  const push = await sendPush(stack, device.token, { schedule });
  await stack.waitForRestart('scheduler', stack.kill('scheduler', 'SIGKILL'));
  expect(countArrivals(device, push) > 0 && Date.now() < schedule * 1_000).toBe(false);
  await until(() => countArrivals(device, push) > 0, { timeoutMs: 60_000 });
  expect(Date.now()).toBeGreaterThanOrEqual(schedule * 1_000);
});
