import type { Channel } from '@carillon/core/channels';
import { newObjectId, newPushId, pushStartMs } from '@carillon/core/ids';
import { connectRedis, type Redis } from '@carillon/presence/redis';
import { deliverJobId, resendJobId } from '@carillon/queue/jobs';
import { createProducers } from '@carillon/queue/producers';
import { queueKey } from '@carillon/queue/queue-keys';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import { until } from '../../../test/support/until.ts';
import { reconcile } from '../src/reconcile.ts';

const APP = newObjectId();
const TOKEN = 'c'.repeat(22);

let server: Awaited<ReturnType<typeof startRedis>>;
let redis: Redis;
let bench: StoreUnderTest;
let producers: ReturnType<typeof createProducers>;
beforeAll(async () => {
  server = await startRedis();
  redis = await connectRedis(server);
  bench = await startStore();
  producers = createProducers(server, () => undefined);
  await until(async () => (await producers.countDue('send').catch(() => -1)) === 0);
});
afterAll(async () => {
  await producers?.close();
  redis?.disconnect();
  await bench?.stop();
  await server?.stop();
});
beforeEach(async () => {
  await redis.flushall();
  await bench.pushes.deleteMany({});
});

interface InsertOptions {
  agoMs: number;
  tries?: number;
  isScheduled?: boolean;
  channel?: Channel;
}

/** Stores a push with an embedded batch that is due. Returns its id. */
async function insertPush(options: InsertOptions) {
  const { agoMs, tries = 0, isScheduled = false, channel = 'mqtt' } = options;
  const now = Math.floor(bench.store.clock.now());
  const at = new Date(now - agoMs);
  const expiresAt = new Date(now + 60_000);
  const _id = newPushId(at.getTime());
  await bench.store.pushes.insert({
    ...{ _id, app: APP, state: isScheduled ? 'scheduled' : 'open', acceptedAt: at },
    ...(isScheduled && { dueAt: at }),
    ...{ expiresAt, sendUntil: expiresAt, data: '{}', audience: { topics: [], tokens: '' } },
    ...{ devices: 1, fan: { seq: 0, next: 1, done: true } },
    work: { state: 'ready', channel, at, tries, n: 1, tokens: TOKEN },
  });
  return _id;
}

/** Lists the waiting jobs, the first to be taken first. */
const listJobs = async (queue: 'send' | 'deliver-apns' = 'send') =>
  (await redis.lrange(queueKey(redis, queue, 'wait'), 0, -1)).reverse();
/** Runs a tick. Returns how many batches got a job. */
const tick = async () => (await reconcile(bench.store, producers)).works;
const jobIdOf = (push: string) => resendJobId(push, new Date(pushStartMs(push)));

test('a push that was just accepted still has its first job', async () => {
  // Far from the limit: the machine may be busy.
  await insertPush({ agoMs: -30_000 });
  await insertPush({ agoMs: 0 });
  expect(await tick()).toBe(0);
  expect(await listJobs()).toEqual([]);
});

test('a push that no worker has claimed gets a job some seconds after it was accepted', async () => {
  const push = await insertPush({ agoMs: 0 });
  await until(async () => (await tick()) === 1, { timeoutMs: 30_000 });
  expect(await listJobs()).toEqual([jobIdOf(push)]);
  await tick();
  expect(await listJobs()).toEqual([jobIdOf(push)]);
});

test('a scheduled push, a retry and a push over a provider get a job at once', async () => {
  const scheduled = await insertPush({ agoMs: 900, isScheduled: true });
  const retry = await insertPush({ agoMs: 500, tries: 1 });
  const provider = await insertPush({ agoMs: 0, channel: 'apns' });
  expect(await tick()).toBe(3);
  expect((await listJobs()).sort()).toEqual([scheduled, retry].map(jobIdOf).sort());
  const data = await redis.hget(queueKey(redis, 'send', jobIdOf(retry)), 'data');
  expect(JSON.parse(data ?? '')).toEqual({ app: APP, pushes: [retry] });
  expect(await listJobs('deliver-apns')).toEqual([deliverJobId(provider)]);
});
