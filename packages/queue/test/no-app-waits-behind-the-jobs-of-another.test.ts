import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { connectRedis, type Redis } from '../../presence/src/redis.ts';
import { startRedis } from '../../presence/test/start-server.ts';
import { openBoardQueues } from '../src/board-queues.ts';
import { jobSchemas } from '../src/jobs.ts';
import { createProducers, type Producers } from '../src/producers.ts';
import { readQueueStates } from '../src/queue-states.ts';
import { createWorker } from '../src/workers.ts';

/** Jobs of an app that come before others' at the most: those that are no backlog, and some turns. */
const FEW = 200;
const ONE = { channel: 'apns', recipients: 1 } as const;

let redis: Awaited<ReturnType<typeof startRedis>>;
let client: Redis;
let processes: Producers[] = [];
beforeAll(async () => {
  redis = await startRedis();
  client = await connectRedis(redis);
});
afterAll(async () => {
  client?.disconnect();
  await redis?.stop();
});
beforeEach(() => client.flushall());
afterEach(async () => {
  await Promise.all(processes.map((one) => one.close()));
  processes = [];
});

/** Returns the producers of a new process. */
function startProcess(): Producers {
  const producers = createProducers(redis, () => undefined);
  processes.push(producers);
  return producers;
}

/** Adds a job for each push of an app, in order. */
async function add(producers: Producers, app: string, count: number, name = ''): Promise<void> {
  for (let n = 0; n < count; n += 1)
    await producers.deliver({ app, id: `${app}-${name}${n}`, ...ONE });
}

/** Adds jobs as slowly as on any machine, so that processes see what others have added before they have added many more. */
async function addSlowly(producers: Producers, app: string, count: number, name = '') {
  for (let part = 0; part < count / 100; part += 1) {
    await add(producers, app, 100, `${name}${part}-`);
    await sleep(150);
  }
}

/** Takes all jobs that wait, one by one, and returns their pushes. */
async function takeAll(count: number): Promise<string[]> {
  const taken: string[] = [];
  const settings = { redis, onError: () => undefined };
  const record = async ({ work }: { work: string }) => void taken.push(work);
  const worker = createWorker(settings, 'deliver-apns', jobSchemas.deliver, record, 1);
  try {
    await until(() => taken.length >= count);
  } finally {
    await worker.stop();
  }
  expect(new Set(taken).size).toBe(count);
  return taken;
}

const appOf = (push: string | undefined): string => (push ?? '').slice(0, push?.indexOf('-'));
const placesOf = (taken: readonly string[], app: string): number[] =>
  taken.flatMap((push, place) => (appOf(push) === app ? [place] : []));

test('a push of one app comes before nearly all of the thousands of another that wait', async () => {
  const api = startProcess();
  await add(api, 'large', 3_000);
  await add(api, 'small', 1);
  const taken = await takeAll(3_001);
  expect(taken.indexOf('small-0')).toBeLessThanOrEqual(FEW);
  // Those of an app stay in order.
  const ofLarge = taken.filter((push) => appOf(push) === 'large');
  expect(ofLarge).toEqual(Array.from({ length: 3_000 }, (_, n) => `large-${n}`));
});

test('an app without waiting pushes does not wait for a turn of each of the others', async () => {
  const api = startProcess();
  for (let n = 0; n < 20; n += 1)
    for (let app = 0; app < 10; app += 1)
      await api.deliver({
        app: `large${app}`,
        id: `large${app}-${n}`,
        channel: 'apns',
        recipients: 50,
      });
  const taken: string[] = [];
  const added = Promise.withResolvers<void>();
  const record = async ({ work }: { work: string }) => {
    if (taken.push(work) === 65) await added.promise;
  };
  const settings = { redis, onError: () => undefined };
  const worker = createWorker(settings, 'deliver-apns', jobSchemas.deliver, record, 1);
  try {
    await until(() => taken.length === 65);
    // So that its place is by the jobs that wait now.
    await sleep(600);
    await add(api, 'small', 2);
    added.resolve();
    await until(() => taken.length === 202);
  } finally {
    await worker.stop();
  }
  expect(taken.indexOf('small-0')).toBe(65);
  expect(taken.indexOf('small-1')).toBeLessThan(65 + 30);
});

test('apps that come one after the other are served in this order, before a large one', async () => {
  const api = startProcess();
  for (let n = 0; n < 40; n += 1)
    await api.deliver({ app: 'large', id: `large-${n}`, channel: 'apns', recipients: 50 });
  for (let n = 0; n < 8; n += 1) {
    await sleep(150);
    await add(api, `new${n}`, 1);
  }
  const taken = await takeAll(48);
  const newcomers = taken.filter((push) => push.startsWith('new'));
  expect(newcomers).toEqual(Array.from({ length: 8 }, (_, n) => `new${n}-0`));
  expect(taken.indexOf('new7-0')).toBeLessThan(20);
});

test('large apps share evenly, whoever was first, and with other processes too', async () => {
  const [one, two] = [startProcess(), startProcess()];
  await add(one, 'first', 1_500);
  await Promise.all([
    addSlowly(one, 'both', 800, 'a'),
    addSlowly(two, 'both', 800, 'b'),
    addSlowly(two, 'second', 1_500),
  ]);
  const taken = await takeAll(4_600);
  const places = ['first', 'both', 'second'].map((app) => placesOf(taken, app)[999] ?? 0);
  expect(Math.max(...places)).toBeLessThan(1.3 * Math.min(...places));
});

test('an app whose process was killed and started again does not overtake its own pushes', async () => {
  await add(startProcess(), 'large', 2_000, 'old');
  await add(startProcess(), 'large', 300, 'new');
  const taken = await takeAll(2_300);
  const firstNew = taken.findIndex((push) => push.startsWith('large-new'));
  expect(firstNew).toBeGreaterThanOrEqual(1_000);
});

test('an app whose backlog was taken is not put behind the backlog of another by it', async () => {
  const [one, two] = [startProcess(), startProcess()];
  await add(two, 'first', 1_000);
  await takeAll(1_000);
  await add(one, 'second', 2_000);
  await add(two, 'first', 1, 'new');
  await add(one, 'first', 1, 'newest');
  const taken = await takeAll(2_002);
  expect(Math.max(...placesOf(taken, 'first'))).toBeLessThanOrEqual(FEW);
});

test('while Redis takes no more writes, jobs that it takes again have a turn', async () => {
  const api = startProcess();
  await add(api, 'large', 300);
  await client.config('SET', 'maxmemory', '1');
  await add(api, 'large', 1, 'refused');
  await sleep(150);
  await add(api, 'large', 1, 'refused');
  await client.config('SET', 'maxmemory', '0');
  await add(api, 'large', 300, 'new');
  expect((await takeAll(600)).filter((push) => push.startsWith('large-new'))).toHaveLength(300);
});

test('without the counts of Redis the shares are even again, and nothing starves', async () => {
  const api = startProcess();
  await add(api, 'large', 2_000);
  await client.del('turns:deliver-apns');
  const restarted = startProcess();
  for (let n = 0; n < 500; n += 1) {
    await restarted.deliver({ app: 'large', id: `large-more${n}`, ...ONE });
    await restarted.deliver({ app: 'other', id: `other-${n}`, ...ONE });
  }
  const taken = await takeAll(3_000);
  expect(placesOf(taken, 'other').at(-1)).toBeLessThan(1_700);
  expect(appOf(taken.at(-1))).toBe('large');
});

test('a job that is added again does not count as more work of its app', async () => {
  const [api, scheduler] = [startProcess(), startProcess()];
  await add(api, 'one', 500);
  for (let round = 0; round < 4; round += 1)
    for (let n = 0; n < 500; n += 1)
      await scheduler.deliver({ app: 'one', id: `one-${n}`, ...ONE, isAgain: true });
  await Promise.all([add(api, 'one', 500, 'more'), add(api, 'two', 1_000)]);
  const taken = await takeAll(2_000);
  const [one, two] = ['one', 'two'].map((app) => placesOf(taken, app)[749] ?? 0);
  expect(Math.abs((one ?? 0) - (two ?? 0))).toBeLessThan(300);
});

test('jobs without a backlog have no priority; those with one are counted as waiting, with the age of the oldest', async () => {
  const api = startProcess();
  await add(api, 'small', 10);
  const readState = async () =>
    (await readQueueStates(client)).find(({ name }) => name === 'deliver-apns');
  expect(await readState()).toMatchObject({ waiting: 10, prioritized: 0 });
  await add(api, 'large', 500);
  const state = await readState();
  expect(state).toMatchObject({ waiting: 510, active: 0 });
  expect(state?.prioritized).toBeGreaterThanOrEqual(500 - FEW);
  expect(await api.countDue('deliver-apns')).toBe(510);
  await takeAll(510);
  expect(await readState()).toMatchObject({ waiting: 0, prioritized: 0, oldestWaitingMs: null });
});

test('a job that was delayed waits since the end of its delay', async () => {
  const HOUR_MS = 3_600_000;
  await startProcess().fanOut({ app: 'app', id: 'push', delayMs: HOUR_MS });
  const board = await openBoardQueues(redis, () => undefined);
  const queue = board.queues.find(({ name }) => name === 'send');
  const [job] = (await queue?.getDelayed()) ?? [];
  await client.hset(`bull:send:${job?.id}`, { timestamp: Date.now() - HOUR_MS - 90_000 });
  await job?.promote();
  await board.close();
  const state = (await readQueueStates(client)).find(({ name }) => name === 'send');
  expect(state?.waiting).toBe(1);
  expect(state?.oldestWaitingMs).toBeGreaterThanOrEqual(90_000);
  expect(state?.oldestWaitingMs).toBeLessThan(HOUR_MS);
});
