import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from '@jest/globals';
import { createRedisServer } from '../../../test/support/faults/redis-server.ts';
import { until } from '../../../test/support/until.ts';
import { startTicks, type Ticks } from '../src/ticks.ts';

const INTERVALS_MS = { reconcile: 1_000, clean: 5_000 };
/** Enough for several ticks of the shorter interval. */
const SHARED_MS = 6_000;
/** The connection to a Redis that has started takes up to a second. */
const BACK = { timeoutMs: 3_000, what: 'a tick' };

const cleanUps: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function startServer() {
  const server = await createRedisServer({ persistence: 'snapshot' });
  cleanUps.push(server.remove);
  await server.start();
  return server;
}

/** Starts the ticks of a process, and records the times of those of the shorter interval. */
function startScheduler(redis: { url: string }, times: number[]): Ticks {
  const ticks = startTicks({ redis, onError: () => undefined }, INTERVALS_MS, async (task) => {
    if (task === 'reconcile') times.push(performance.now());
  });
  cleanUps.push(ticks.stop);
  return ticks;
}

test('several schedulers run each tick once, and continue when one of them ends', async () => {
  const server = await startServer();
  const [first, second]: [number[], number[]] = [[], []];
  const ending = startScheduler(server, first);
  startScheduler(server, second);
  await until(() => first.length + second.length > 0);
  const before = first.length + second.length;
  await sleep(SHARED_MS);
  const ticks = first.length + second.length - before;
  expect(ticks).toBeGreaterThanOrEqual(SHARED_MS / INTERVALS_MS.reconcile - 2);
  expect(ticks).toBeLessThanOrEqual(SHARED_MS / (0.75 * INTERVALS_MS.reconcile));
  await ending.stop();
  const [endedAt, count] = [performance.now(), second.length];
  await until(() => second.length > count);
  expect((second.at(-1) ?? 0) - endedAt).toBeLessThan(2 * INTERVALS_MS.reconcile);
}, 30_000);

test('ticks continue when Redis has restarted without its data', async () => {
  const server = await startServer();
  const times: number[] = [];
  startScheduler(server, times);
  await until(() => times.length > 0, BACK);
  await server.kill();
  await server.start();
  const count = times.length;
  await until(() => times.length > count, BACK);
});

test('a tick that takes long delays no other task, and a process begins no second one of its task', async () => {
  const server = await startServer();
  const release = Promise.withResolvers<void>();
  const begun: string[] = [];
  const ticks = startTicks({ redis: server, onError: () => undefined }, INTERVALS_MS, (task) => {
    begun.push(task);
    return release.promise;
  });
  await until(() => begun.length === 2, { timeoutMs: 10_000 });
  await sleep(2 * INTERVALS_MS.reconcile);
  expect(begun.toSorted()).toEqual(['clean', 'reconcile']);
  release.resolve();
  await ticks.stop();
}, 30_000);
