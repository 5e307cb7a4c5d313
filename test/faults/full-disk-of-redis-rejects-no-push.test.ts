import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { listUnreadyDuring } from '../support/faults/list-unready.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { mountSmallDisk, type SmallDisk } from '../support/faults/small-disk.ts';
import { expectWholeOrAbsent, sendDuring } from '../support/faults/steady-pushes.ts';
import { openRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

const DISK = '32m';
const LOAD = { perSecond: 10, perPush: 3 };
const DEVICES = 12;
const PUSHES = 30;
/** Takes longer than a loop may be blocked before its process is unready; the lease of a gateway ends before. */
const PUSHES_WHILE_FULL = 300;
const CHANGED = { timeoutMs: 30_000 };

let disk: SmallDisk;
let server: RedisServer;
let redis: Redis;
let fixture: Fixture;
beforeAll(async () => {
  disk = mountSmallDisk(DISK);
  server = await createRedisServer({ parent: disk.path });
  await server.start();
  redis = await openRedis({ redis: server.url });
  fixture = await openFixture(
    { registered: DEVICES, real: DEVICES },
    { env: { REDIS_URL: server.url } },
  );
}, 120_000);
afterAll(async () => {
  await fixture?.close();
  redis?.disconnect();
  await server?.remove();
  disk?.unmount();
});

const takesWrites = () =>
  redis.set('test', 'x').then(
    () => true,
    () => false,
  );

test('while its log has no space pushes are accepted and no process is unready; then all of them arrive', async () => {
  const { stack, pool } = fixture;
  const unready = await listUnreadyDuring(stack.dev.processes, async () => {
    const sent = await sendDuring(stack, pool.devices, LOAD, async (load) => {
      await load.untilAccepted(PUSHES);
      disk.fill();
      await until(async () => !(await takesWrites()), { ...CHANGED, what: 'a Redis that is full' });
      await load.untilAccepted(PUSHES_WHILE_FULL);
      expect(await takesWrites()).toBe(false);
      disk.free();
      await until(takesWrites, { ...CHANGED, what: 'a Redis that accepts writes' });
      await load.untilAccepted(PUSHES);
    });
    expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
    await expectWholeOrAbsent('full disk of Redis', fixture, sent);
  });
  expect(unready).toEqual([]);
  expect(stack.output()).not.toMatch(/ ended \(/);
}, 240_000);
