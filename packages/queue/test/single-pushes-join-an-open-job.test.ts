import { setTimeout as sleep } from 'node:timers/promises';
import { connectRedis, type Redis } from '@carillon/presence/redis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { startRedis } from '../../presence/test/start-server.ts';
import { jobSchemas, resendJobId, sendJobId } from '../src/jobs.ts';
import {
  countJoinedPushes,
  createOpenJob,
  type OpenJob,
  type OpenJobHandler,
} from '../src/open-job.ts';
import { createProducers, type Producers } from '../src/producers.ts';
import { createWorker, type QueueWorker } from '../src/workers.ts';

const OPEN_KEY = 'send:joinable';
const ENTRIES_KEY = 'send:joined';
const CALLED_KEY = 'send:called';
/** A busy machine must not close a job before its test is over. */
const PATIENT_MS = 20_000;
/** More entries than the list accepts. */
const MANY = 1_010;

let server: Awaited<ReturnType<typeof startRedis>>;
let redis: Redis;
let producers: Producers;
const errors: Error[] = [];
const onError = (error: Error) => void errors.push(error);
beforeAll(async () => {
  server = await startRedis();
  redis = await connectRedis(server);
});
afterAll(async () => {
  redis?.disconnect();
  await server?.stop();
});
beforeEach(async () => {
  await redis.flushall();
  producers = createProducers(server, onError);
  // The first push after a pause does not check for an open job.
  await until(async () => (await producers.countDue('send').catch(() => -1)) === 0);
  await producers.sendEmbedded('first');
});
afterEach(async () => {
  await producers.close();
  expect(errors.splice(0)).toEqual([]);
});

/** Processes pushes as a delivery-worker does, and records them. */
function createTaker(openJob: OpenJob) {
  const taken: string[] = [];
  let isStopping = false;
  let hold: Promise<void> = Promise.resolve();
  let delayMs = 0;
  const handler: OpenJobHandler = {
    untilFree: () => (delayMs > 0 ? sleep(delayMs) : hold),
    deliver: async (pushes) => void taken.push(...pushes.map(({ id }) => id)),
    isStopping: () => isStopping,
  };
  return {
    taken,
    takePushes: () => openJob.takePushes(handler),
    stop() {
      isStopping = true;
    },
    /** Makes a slot free so much later. */
    delay(ms: number) {
      delayMs = ms;
    },
    /** Keeps the next pushes waiting until the returned function is called. */
    holdBack(): () => void {
      const { promise, resolve } = Promise.withResolvers<void>();
      hold = promise;
      return resolve;
    },
  };
}

const untilOpen = () => until(async () => (await redis.exists(OPEN_KEY)) === 1, { everyMs: 2 });
const countJobs = () => producers.countDue('send');

/** Connects before its first use: a worker is connected long before its first job. */
async function openConnected(limits: Parameters<typeof createOpenJob>[1] = {}) {
  const patient = { idleMs: PATIENT_MS, slowMs: PATIENT_MS };
  const openJob = createOpenJob({ redis: server, onError }, { ...patient, ...limits });
  await until(openJob.isConnected);
  return openJob;
}

test('without an open job, pushes get a job of the queue', async () => {
  await producers.sendEmbedded('second');
  expect(await countJobs()).toBe(2);
  expect(await redis.llen(ENTRIES_KEY)).toBe(0);
});

test('pushes join a job that is open', async () => {
  const openJob = await openConnected();
  const taker = createTaker(openJob);
  const closed = taker.takePushes();
  await untilOpen();
  await Promise.all(['a', 'b', 'c'].map((push) => producers.sendEmbedded(push)));
  await until(() => taker.taken.length === 3);
  expect(await countJobs()).toBe(1);
  taker.stop();
  await closed;
  expect(taker.taken).toEqual(['a', 'b', 'c']);
  await openJob.close();
});

test('after a pause the open job is closed, and pushes get a job again', async () => {
  const openJob = await openConnected({ idleMs: 100 });
  const taker = createTaker(openJob);
  await taker.takePushes();
  expect(await redis.exists(OPEN_KEY)).toBe(0);
  await producers.sendEmbedded('late');
  expect(await countJobs()).toBe(2);
  expect(taker.taken).toEqual([]);
  await openJob.close();
});

test('pushes that no worker has taken yet are counted one by one', async () => {
  expect(await countJoinedPushes(redis)).toBe(0);
  await redis.set(OPEN_KEY, 1);
  // Pushes of the same moment share an entry.
  await Promise.all(['a', 'b', 'c', 'd'].map((push) => producers.sendEmbedded(push)));
  await producers.sendEmbedded('e');
  expect(await redis.llen(ENTRIES_KEY)).toBe(2);
  expect(await countJoinedPushes(redis)).toBe(5);
});

test('a second job of the process does not open another, and the reconciler never joins', async () => {
  const openJob = await openConnected();
  const taker = createTaker(openJob);
  const closed = taker.takePushes();
  await untilOpen();
  const other = createTaker(openJob);
  await other.takePushes();
  await producers.resendEmbedded('lost', new Date());
  expect(await countJobs()).toBe(2);
  await producers.sendEmbedded('a');
  await until(() => taker.taken.length === 1);
  taker.stop();
  await closed;
  expect([taker.taken, other.taken]).toEqual([['a'], []]);
  await openJob.close();
});

test('the reconciler, which finds pushes again while their job waits, adds no second job for the same due time', async () => {
  const [due, later] = [new Date(1_000), new Date(2_000)];
  const readJob = async (first: string): Promise<unknown> =>
    JSON.parse((await redis.hget(`bull:send:${resendJobId(first, due)}`, 'data')) ?? 'null');
  await Promise.all(['b', 'c'].map((push) => producers.resendEmbedded(push, due)));
  await Promise.all(['a', 'b', 'c'].map((push) => producers.resendEmbedded(push, due)));
  expect([await readJob('b'), await readJob('a')]).toEqual([{ lone: ['b', 'c'] }, { lone: ['a'] }]);
  await Promise.all([producers.resendEmbedded('0', due), producers.resendEmbedded('c', later)]);
  expect(await readJob('0')).toEqual({ lone: ['0', 'c'] });
});

test('a push whose first job still exists gets a second one, together with other lost pushes', async () => {
  const due = new Date(1_000);
  expect(await redis.exists(`bull:send:${sendJobId('first', 0)}`)).toBe(1);
  await Promise.all(['first', 'b'].map((push) => producers.resendEmbedded(push, due)));
  expect(await countJobs()).toBe(2);
  const data = await redis.hget(`bull:send:${resendJobId('first', due)}`, 'data');
  expect(JSON.parse(data ?? 'null')).toEqual({ lone: ['first', 'b'] });
});

test('a push that joins just before the open job closes is delivered', async () => {
  const idleMs = 300;
  const openJob = await openConnected({ idleMs });
  const taker = createTaker(openJob);
  const closed = taker.takePushes();
  await untilOpen();
  const release = taker.holdBack();
  await producers.sendEmbedded('held');
  await until(() => taker.taken.length === 1);
  for (const push of ['a', 'b']) await producers.sendEmbedded(push);
  // It is busy for longer than it stays open without a push.
  const busySince = performance.now();
  await until(() => performance.now() - busySince > idleMs);
  expect(await redis.llen(ENTRIES_KEY)).toBe(2);
  release();
  await closed;
  expect(taker.taken).toEqual(['held', 'a', 'b']);
  await openJob.close();
});

test('while a worker does not keep up, some pushes get a job, so that another worker helps', async () => {
  await redis.set(OPEN_KEY, 1);
  await redis.set(CALLED_KEY, 1);
  for (let n = 0; n < 12; n += 1) await producers.sendEmbedded(`push-${n}`);
  expect(await redis.llen(ENTRIES_KEY)).toBe(12);
  await redis.del(CALLED_KEY);
  await producers.sendEmbedded('call');
  expect(await countJobs()).toBe(2);
  // A later test may run long after the key has lapsed.
  expect(await redis.pttl(CALLED_KEY)).toBeLessThanOrEqual(250);
  await redis.ltrim(ENTRIES_KEY, 0, 8);
  await redis.del(CALLED_KEY);
  await producers.sendEmbedded('keeps-up');
  expect(await redis.llen(ENTRIES_KEY)).toBe(10);
  expect(await redis.exists(CALLED_KEY)).toBe(0);
});

test('a worker that takes no push gets no further ones', async () => {
  await redis.set(OPEN_KEY, 1);
  await redis.set(CALLED_KEY, 1);
  for (let n = 0; n < MANY; n += 1) await producers.sendEmbedded(`push-${n}`);
  expect(await redis.llen(ENTRIES_KEY)).toBe(1_000);
  expect(await countJobs()).toBe(11);
  const openJob = await openConnected();
  const taker = createTaker(openJob);
  const closed = taker.takePushes();
  await until(() => taker.taken.length === 1_000);
  taker.stop();
  await closed;
  expect(await redis.exists(OPEN_KEY)).toBe(0);
  await openJob.close();
});

test('the open job stays open while pushes wait', async () => {
  const idleMs = 100;
  const openJob = await openConnected({ idleMs });
  const taker = createTaker(openJob);
  const closed = taker.takePushes();
  await untilOpen();
  for (let n = 0; n < 3; n += 1) {
    const release = taker.holdBack();
    const before = taker.taken.length;
    await producers.sendEmbedded(`held-${n}`);
    await until(() => taker.taken.length > before);
    await producers.sendEmbedded(`waits-${n}`);
    const busySince = performance.now();
    await until(() => performance.now() - busySince > idleMs);
    release();
    await until(() => taker.taken.length === before + 2);
    expect(await redis.exists(OPEN_KEY)).toBe(1);
  }
  expect(await countJobs()).toBe(1);
  taker.stop();
  await closed;
  await openJob.close();
});

test('an open job whose worker waits too long for a slot is not kept open', async () => {
  const openJob = await openConnected({ slowMs: 20 });
  const taker = createTaker(openJob);
  taker.delay(60);
  const closed = taker.takePushes();
  await untilOpen();
  await redis.rpush(ENTRIES_KEY, ...Array.from({ length: 200 }, (_, n) => `push-${n}`));
  await until(async () => (await redis.exists(OPEN_KEY)) === 0, { everyMs: 20 });
  expect(taker.taken.length).toBeLessThan(200);
  // It goes on, and is open again once nothing waits.
  taker.delay(0);
  await until(() => taker.taken.length === 200);
  await untilOpen();
  taker.stop();
  await closed;
  await openJob.close();
});

test('a single long wait for a slot closes no open job for whose worker pushes wait', async () => {
  const openJob = await openConnected({ slowMs: 200, maxOpenMs: 50 });
  const taker = createTaker(openJob);
  const release = taker.holdBack();
  const closed = taker.takePushes();
  await untilOpen();
  await redis.rpush(ENTRIES_KEY, ...Array.from({ length: 200 }, (_, n) => `push-${n}`));
  await until(() => taker.taken.length === 1);
  const heldSince = performance.now();
  await until(() => performance.now() - heldSince > 200);
  taker.delay(30);
  release();
  await until(() => taker.taken.length > 3);
  expect(await redis.exists(OPEN_KEY)).toBe(1);
  expect(taker.taken.length).toBeLessThan(200);
  taker.stop();
  await closed;
  await openJob.close();
});

test('while many pushes wait the open job ends after its maximum time and leaves the list to the next one', async () => {
  const openJob = await openConnected({ maxOpenMs: 50, maxBusyMs: 300 });
  const taker = createTaker(openJob);
  const release = taker.holdBack();
  const closed = taker.takePushes();
  await untilOpen();
  const openedAt = performance.now();
  await redis.rpush(ENTRIES_KEY, ...Array.from({ length: 30 }, (_, n) => `push-${n}`));
  await until(() => performance.now() - openedAt > 300);
  // Without an end, so that only a worker removes it.
  await redis.set(OPEN_KEY, 1);
  release();
  await closed;
  expect(taker.taken).toEqual(['push-0']);
  expect(await redis.llen(ENTRIES_KEY)).toBe(29);
  expect(await redis.exists(OPEN_KEY)).toBe(1);
  const nextJob = await openConnected();
  const next = createTaker(nextJob);
  const nextClosed = next.takePushes();
  await until(() => next.taken.length === 29);
  next.stop();
  await nextClosed;
  await Promise.all([openJob.close(), nextJob.close()]);
});

test('after a flush of Redis the next push gets a job, and the renewed open job accepts pushes', async () => {
  const openJob = await openConnected();
  const taker = createTaker(openJob);
  const closed = taker.takePushes();
  await untilOpen();
  await redis.flushall();
  await producers.sendEmbedded('after');
  expect(await countJobs()).toBe(1);
  await untilOpen();
  await producers.sendEmbedded('joined');
  await until(() => taker.taken.length === 1);
  taker.stop();
  await closed;
  expect(taker.taken).toEqual(['joined']);
  await openJob.close();
});

test('a worker of the queue gets one job for many pushes', async () => {
  await redis.flushall();
  const openJob = await openConnected();
  const taker = createTaker(openJob);
  let jobs = 0;
  const worker: QueueWorker = createWorker(
    { redis: server, onError },
    'send',
    jobSchemas.send,
    async (job) => {
      jobs += 1;
      if ('lone' in job) taker.taken.push(...job.lone);
      await taker.takePushes();
    },
    8,
  );
  const sent = Array.from({ length: 30 }, (_, n) => `push-${n}`);
  for (const push of sent) {
    await producers.sendEmbedded(push);
    await until(() => taker.taken.includes(push), { everyMs: 1 });
    await until(async () => (await redis.exists(OPEN_KEY)) === 1, { everyMs: 1 });
  }
  expect(taker.taken).toEqual(sent);
  expect(jobs).toBe(1);
  taker.stop();
  await worker.stop();
  await openJob.close();
});
