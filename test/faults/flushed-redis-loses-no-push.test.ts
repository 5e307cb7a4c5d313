import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { expectComplete } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import {
  countBatchStates,
  isPartlyClosed,
  sendPush,
  untilPartlyClosed,
} from '../support/faults/pushes.ts';
import { emptyRedis, openRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

const POOL_SIZE = { registered: 60_000, real: 60 };

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

test('three times in the middle of one fan-out', async () => {
  const { stack, mongo, pool } = fixture;
  const push = await sendPush(stack, pool.tokens);
  await untilPartlyClosed(mongo, push);
  for (let closed = 0; closed < 3; closed += 1) {
    await emptyRedis(redis);
    const states = await countBatchStates(mongo, push);
    expect(isPartlyClosed(states)).toBe(true);
    // Some more is done before it is emptied again, so that each time something else is lost.
    const continues = async () => (await countBatchStates(mongo, push)).closed > states.closed;
    await until(continues, { timeoutMs: 20_000, everyMs: 5 });
  }
  await expectComplete(fixture, push, 'Redis emptied three times');
});
