import { connectRedis, probeRedis } from '@carillon/presence/redis';
import { afterEach, expect, test } from '@jest/globals';
import { createRedisServer } from '../../../test/support/faults/redis-server.ts';
import { until } from '../../../test/support/until.ts';
import { queueKey } from '../src/queue-keys.ts';
import { keepJobSchedulers } from '../src/workers.ts';

const INTERVALS_MS = { reconcile: 1_000, clean: 5_000 };
/** Below the five seconds after which they are upserted anyway. */
const UPSERTED = { timeoutMs: 3_000, what: 'the job schedulers' };

const cleanUps: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

test('they are upserted at once when Redis has restarted without its data', async () => {
  const server = await createRedisServer({ persistence: 'snapshot' });
  cleanUps.push(server.remove);
  await server.start();
  const redis = await connectRedis(server);
  cleanUps.push(() => redis.disconnect());
  const kept = keepJobSchedulers({ redis: server, onError: () => undefined }, INTERVALS_MS);
  cleanUps.push(kept.stop);
  const listTasks = () =>
    probeRedis(server, (probe) =>
      probe.zrange(queueKey(redis, 'maintenance', 'repeat'), '0', '-1'),
    );
  const hasAll = async () => (await listTasks()).length === Object.keys(INTERVALS_MS).length;
  await until(hasAll, UPSERTED);
  await server.kill();
  await server.start();
  await until(hasAll, UPSERTED);
  expect((await listTasks()).toSorted()).toEqual(['clean', 'reconcile']);
});
