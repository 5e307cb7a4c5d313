import { afterAll, afterEach, beforeAll, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { expectComplete } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixtureOn } from '../support/faults/fixture.ts';
import {
  countBatchStates,
  expectPartlyClosed,
  type SentPush,
  sendPush,
  untilPartlyClosed,
} from '../support/faults/pushes.ts';
import { whileDead } from '../support/guarantees/crash-stack.ts';
import { emptyRedis, openRedis } from '../support/redis.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const POOL_SIZE = { registered: 30_000, real: 20 };

let fixture: Fixture;
let redis: Redis;
beforeAll(async () => {
  fixture = await openFixtureOn(await useKillableStack(), POOL_SIZE);
  redis = await openRedis(fixture.stack.dev);
});
afterEach(releaseReceipts);
afterAll(async () => {
  redis?.disconnect();
  await fixture?.close();
});

/** Sends to all; a few devices delay their receipts and keep some batches open, on a fast machine too. */
async function sendMidway(): Promise<SentPush> {
  const { stack, mongo, pool } = fixture;
  for (const device of pool.devices.slice(0, 6)) device.holdReceipts();
  const push = await sendPush(stack, pool.tokens);
  await untilPartlyClosed(mongo, push);
  return push;
}

function releaseReceipts(): void {
  for (const device of fixture.pool.devices) device.releaseReceipts();
}

test('three times in the middle of one fan-out', async () => {
  const { mongo } = fixture;
  const push = await sendMidway();
  for (let round = 0; round < 3; round += 1) {
    const { closed } = await countBatchStates(mongo, push);
    await emptyRedis(redis);
    await expectPartlyClosed(mongo, push);
    if (round === 2) releaseReceipts();
    // Some more is done before it is emptied again, so that each time something else is lost.
    await until(async () => (await countBatchStates(mongo, push)).closed > closed, { everyMs: 5 });
  }
  await expectComplete(fixture, push, 'Redis emptied three times');
});

test('while no scheduler runs: the next one adds the lost jobs again', async () => {
  const push = await sendMidway();
  await whileDead(fixture.stack, ['scheduler'], async () => {
    await emptyRedis(redis);
    await expectPartlyClosed(fixture.mongo, push);
  });
  releaseReceipts();
  await expectComplete(fixture, push, 'schedulers killed and Redis emptied');
});
