import { afterEach, expect, test } from '@jest/globals';
import { createRedisServer } from '../../../test/support/faults/redis-server.ts';
import { measureLag } from '../../../test/support/lag.ts';
import { until } from '../../../test/support/until.ts';
import { startTicks, type Task } from '../src/ticks.ts';

const INTERVALS_MS = { reconcile: 200, clean: 1_000, prune: 1_000 };
/** Time for which a tick is claimed. */
const CLAIMED_MS = 0.75 * INTERVALS_MS.reconcile;
const GUARD = { timeoutMs: 50_000 };

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

/** Starts the ticks of a process, and counts those of the shorter interval. */
function startScheduler(redis: { url: string }, run = async (_: Task): Promise<void> => undefined) {
  let count = 0;
  const ticks = startTicks({ redis, onError: () => undefined }, INTERVALS_MS, (task) => {
    if (task === 'reconcile') count += 1;
    return run(task);
  });
  cleanUps.push(ticks.stop);
  return { stop: ticks.stop, count: () => count };
}

const untilMore = (count: () => number, more = 1) => {
  const before = count();
  return until(() => count() >= before + more, GUARD);
};

test('several schedulers run each tick once, and continue when one of them ends', async () => {
  const server = await startServer();
  const [startedAt, lag] = [performance.now(), measureLag()];
  const [ending, other] = [startScheduler(server), startScheduler(server)];
  await untilMore(() => ending.count() + other.count(), 10);
  const elapsedMs = performance.now() - startedAt;
  const count = ending.count() + other.count();
  expect(count).toBeLessThanOrEqual(1 + elapsedMs / CLAIMED_MS);
  const undisturbedMs = elapsedMs - 3 * lag.stop();
  expect(count).toBeGreaterThanOrEqual(undisturbedMs / (5 * INTERVALS_MS.reconcile));
  await ending.stop();
  await untilMore(other.count);
});

test('ticks continue when Redis has restarted without its data', async () => {
  const server = await startServer();
  const { count } = startScheduler(server);
  await untilMore(count);
  await server.kill();
  await server.start();
  await untilMore(count);
});

test('a tick that takes long delays no other task, and a process begins no second one of its task', async () => {
  const server = await startServer();
  const release = Promise.withResolvers<void>();
  const begun: string[] = [];
  const { stop } = startScheduler(server, (task) => {
    begun.push(task);
    return release.promise;
  });
  await until(() => begun.length === 3, GUARD);
  // Another process runs the ticks meanwhile.
  await untilMore(startScheduler(server).count, 3);
  expect(begun.toSorted()).toEqual(['clean', 'prune', 'reconcile']);
  release.resolve();
  await stop();
});
