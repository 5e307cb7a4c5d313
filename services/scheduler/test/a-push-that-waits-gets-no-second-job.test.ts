import type { Channel } from '@carillon/core/channels';
import { newObjectId, newPushId, pushStartMs } from '@carillon/core/ids';
import { connectRedis, type Redis } from '@carillon/presence/redis';
import { deliverJobId, resendJobId, sendJobId } from '@carillon/queue/jobs';
import { createProducers } from '@carillon/queue/producers';
import { queueKey } from '@carillon/queue/queue-keys';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import { until } from '../../../test/support/until.ts';
import { reconcile } from '../src/reconcile.ts';

const APP = newObjectId();
const TOKEN = 'c'.repeat(22);
/** Keys of open jobs. */
const [OPEN, ENTRIES] = ['send:joinable', 'send:joined'] as const;

let server: Awaited<ReturnType<typeof startRedis>>;
let redis: Redis;
let bench: StoreUnderTest;
let producers: ReturnType<typeof createProducers>;
const errors: Error[] = [];
beforeAll(async () => {
  server = await startRedis();
  redis = await connectRedis(server);
  bench = await startStore();
  producers = createProducers(server, (error) => void errors.push(error));
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
  errors.length = 0;
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

const idAt = (agoMs: number) => newPushId(Math.floor(bench.store.clock.now()) - agoMs);
const listJobs = () => redis.lrange(queueKey(redis, 'send', 'wait'), 0, -1);
/** Runs a tick. Returns how many batches got a job. */
const tick = async () => (await reconcile(bench.store, producers)).works;

/** The id of the job by which a push is delivered again that was due when it was accepted. */
const jobIdOf = (push: string) => resendJobId(push, new Date(pushStartMs(push)));

/** Adds a job of the queue that no worker takes, as the API does. */
async function addWaitingJob(jobId: string) {
  await redis.lpush(queueKey(redis, 'send', 'wait'), jobId);
}

test('a push that was just accepted still has its first job', async () => {
  // Far from the limit on both sides: the machine may be busy.
  await insertPush({ agoMs: -30_000 });
  await insertPush({ agoMs: 0 });
  expect(await tick()).toBe(0);
  expect(await listJobs()).toEqual([]);
});

test('a push whose job is lost gets one a second after it was accepted', async () => {
  const push = await insertPush({ agoMs: 0 });
  await until(async () => (await tick()) === 1, { timeoutMs: 30_000 });
  expect(bench.store.clock.now() - pushStartMs(push)).toBeGreaterThanOrEqual(1_000);
  expect(await listJobs()).toEqual([jobIdOf(push)]);
});

test('a push behind an older job of the queue gets a job only once that is taken', async () => {
  const older = sendJobId(idAt(20_000), 0);
  await addWaitingJob(older);
  await insertPush({ agoMs: 15_000 });
  const younger = await insertPush({ agoMs: 10_000 });
  expect(await tick()).toBe(0);
  expect(await listJobs()).toEqual([older]);
  // Also a push that began just after it: they may share a job.
  await insertPush({ agoMs: 20_500 });
  expect(await tick()).toBe(0);
  await redis.del(queueKey(redis, 'send', 'wait'));
  await addWaitingJob(sendJobId(younger, 0));
  expect(await tick()).toBe(2);
});

test('a push that is older than all waiting ones gets a job', async () => {
  await addWaitingJob(sendJobId(idAt(5_000), 0));
  await insertPush({ agoMs: 15_000 });
  await insertPush({ agoMs: 3_000 });
  expect(await tick()).toBe(1);
});

test('a push behind an older one in an open job gets no job while that is open', async () => {
  await redis.rpush(ENTRIES, `${idAt(20_000)} ${idAt(19_999)}`);
  await redis.rpush(ENTRIES, idAt(100));
  await redis.set(OPEN, 1);
  await insertPush({ agoMs: 15_000 });
  expect(await tick()).toBe(0);
  await redis.del(OPEN);
  expect(await tick()).toBe(1);
});

test('a push gets a job after half a minute, whatever waits', async () => {
  await addWaitingJob(sendJobId(idAt(50_000), 0));
  await insertPush({ agoMs: 40_000 });
  await insertPush({ agoMs: 10_000 });
  expect(await tick()).toBe(1);
});

test('a push that a worker released, and a scheduled one that is due, get a job at once', async () => {
  await addWaitingJob(sendJobId(idAt(20_000), 0));
  await insertPush({ agoMs: 10, tries: 1 });
  await insertPush({ agoMs: 10, isScheduled: true });
  expect(await tick()).toBe(2);
});

test('a push waits behind a job of the reconciler whose pushes are due earlier', async () => {
  const again = (agoMs: number) => new Date(Math.floor(bench.store.clock.now()) - agoMs);
  await addWaitingJob(resendJobId(idAt(300_000), again(20_000)));
  await insertPush({ agoMs: 15_000 });
  expect(await tick()).toBe(0);
  await redis.del(queueKey(redis, 'send', 'wait'));
  await addWaitingJob(resendJobId(idAt(300_000), again(5_000)));
  expect(await tick()).toBe(1);
});

test('a push of another channel, whose job is in another queue, does not wait behind this queue', async () => {
  await addWaitingJob(sendJobId(idAt(20_000), 0));
  const push = await insertPush({ agoMs: 10, channel: 'apns' });
  expect(await tick()).toBe(1);
  const jobs = await redis.lrange(queueKey(redis, 'deliver-apns', 'wait'), 0, -1);
  expect(jobs).toEqual([deliverJobId(push)]);
});

test.each([
  ['a later step of a fan-out', sendJobId(idAtStart(), 3)],
  ['a delayed step', sendJobId(idAtStart(), 0, true)],
  ['an entry that is no job id', 'send-x'],
])('%s at the head of the queue delays no push', async (_, jobId) => {
  await addWaitingJob(jobId);
  await insertPush({ agoMs: 15_000 });
  expect(await tick()).toBe(1);
});

/** An id that is older than all pushes of these tests. */
function idAtStart() {
  return newPushId(Date.now() - 20_000);
}

test.each(['{"no": "id"}', 'push-0', ''])(
  'the entry %j, which is not an id, delays no push',
  async (entry) => {
    await redis.set(OPEN, 1);
    await redis.rpush(ENTRIES, entry);
    await insertPush({ agoMs: 15_000 });
    expect(await tick()).toBe(1);
  },
);

test('a failure of Redis is reported, and the push gets a job when it is over', async () => {
  // Of another type than a list: Redis refuses to read it.
  await redis.set(queueKey(redis, 'send', 'wait'), 'x');
  await redis.set(OPEN, 1);
  await redis.rpush(ENTRIES, idAt(20_000));
  const push = await insertPush({ agoMs: 15_000 });
  expect(await tick()).toBe(1);
  expect(errors.map(({ message }) => message).join('\n')).toContain('WRONGTYPE');
  await redis.flushall();
  await tick();
  expect(await listJobs()).toEqual([jobIdOf(push)]);
});
