import { newObjectId } from '@carillon/core/ids';
import { connectRedis, type Redis } from '@carillon/presence/redis';
import { redriveJobId } from '@carillon/queue/jobs';
import { createProducers } from '@carillon/queue/producers';
import { queueKey } from '@carillon/queue/queue-keys';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import { until } from '../../../test/support/until.ts';
import { createClean } from '../src/clean.ts';

let server: Awaited<ReturnType<typeof startRedis>>;
let redis: Redis;
let bench: StoreUnderTest;
let producers: ReturnType<typeof createProducers>;
beforeAll(async () => {
  server = await startRedis();
  redis = await connectRedis(server);
  bench = await startStore();
  producers = createProducers(server, () => undefined);
  await until(async () => (await producers.countDue('redrive').catch(() => -1)) === 0);
});
afterAll(async () => {
  await producers?.close();
  redis?.disconnect();
  await bench?.stop();
  await server?.stop();
});

const listJobs = () => redis.lrange(queueKey(redis, 'redrive', 'wait'), 0, -1);

test('a running re-drive has one job from the next tick on, whatever Redis has lost', async () => {
  const { store } = bench;
  const clean = createClean(store, store, producers);
  await clean();
  expect(await listJobs()).toEqual([]);
  const ids = [newObjectId(), newObjectId()].map((app) => store.redrives.create(app, {}));
  const [running = '', ended = ''] = await Promise.all(ids);
  await store.redrives.end({ _id: ended }, 'finished');
  for (let times = 0; times < 2; times += 1) {
    await clean();
    await clean();
    expect(await listJobs()).toEqual([redriveJobId(running, undefined)]);
    await redis.flushall();
  }
});

test('without a running re-drive a tick reads no document of the others', async () => {
  const { store, db } = bench;
  const clean = createClean(store, store, producers);
  const redrives = db.collection('redrives');
  await redrives.updateMany({}, { $set: { state: 'finished' } });
  await db.command({ profile: 2 });
  await clean();
  await db.command({ profile: 0 });
  const reads = await db
    .collection('system.profile')
    .find({ ns: /\.redrives$/ })
    .toArray();
  expect(reads).toMatchObject([{ op: 'query', docsExamined: 0, keysExamined: 0 }]);
});
