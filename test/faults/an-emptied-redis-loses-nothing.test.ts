import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from 'ioredis';
import { isMidway, sendPush, untilMidway, workStates } from '../support/faults/pushes.ts';
import { openScene, type Scene } from '../support/faults/scene.ts';
import { expectWhole } from '../support/faults/whole.ts';
import { openRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

const CROWD = { registered: 60_000, real: 60 };

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

test('three times in the middle of one fan-out', async () => {
  const { stack, mongo, crowd } = scene;
  const push = await sendPush(stack, crowd.tokens);
  await untilMidway(mongo, push);
  for (let closed = 0; closed < 3; closed += 1) {
    await redis.flushall();
    const states = await workStates(mongo, push);
    expect(isMidway(states)).toBe(true);
    // Some more is done before it is emptied again, so that each time something else is lost.
    const goesOn = async () => (await workStates(mongo, push)).closed > states.closed;
    await until(goesOn, { timeoutMs: 20_000, everyMs: 5 });
  }
  await expectWhole(scene, push, 'Redis emptied three times');
});
