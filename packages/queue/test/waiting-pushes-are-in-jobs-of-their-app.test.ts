import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { startRedis } from '../../presence/test/start-server.ts';
import { type BoardQueues, openBoardQueues } from '../src/board-queues.ts';
import { jobSchemas } from '../src/jobs.ts';
import { createProducers, type Producers } from '../src/producers.ts';
import { createWorker } from '../src/workers.ts';

const PUSHES = 1_000;
const PER_JOB = 50;
/** Pushes of each app, of every ten. */
const SHARES = { one: 7, two: 2, three: 1 };
const APPS = Object.entries(SHARES).flatMap(([app, share]) => Array<string>(share).fill(app));

let redis: Awaited<ReturnType<typeof startRedis>>;
let producers: Producers;
let board: BoardQueues;
beforeAll(async () => {
  redis = await startRedis();
  producers = createProducers(redis, () => undefined);
  board = await openBoardQueues(redis, () => undefined);
});
afterAll(async () => {
  await board?.close();
  await producers?.close();
  await redis?.stop();
});

const pushes = Array.from({ length: PUSHES }, (_, n) => ({
  app: APPS[n % APPS.length] ?? '',
  id: `push${n}`,
  recipients: 1,
}));

function sendQueue() {
  const queue = board.queues.find(({ name }) => name === 'send');
  if (queue === undefined) throw new Error('there is no queue send');
  return queue;
}

test('a thousand pushes that wait are counted by BullMQ, by app', async () => {
  await Promise.all(pushes.map(producers.send));
  const jobs = await sendQueue().getJobs(['waiting', 'prioritized']);
  expect(jobs).toHaveLength(await producers.countDue('send'));
  expect(jobs.length).toBe(PUSHES / PER_JOB);
  const counts: Record<string, number> = {};
  for (const { data } of jobs) {
    const { app, pushes: ids } = data as { app: string; pushes: string[] };
    expect(ids.length).toBeLessThanOrEqual(PER_JOB);
    counts[app] = (counts[app] ?? 0) + ids.length;
  }
  expect(counts).toEqual({ one: 700, two: 200, three: 100 });
});

test('a worker takes each of them once, those of an app in the order in which they were sent', async () => {
  const taken = new Map<string, string[]>();
  const record = async (job: { app: string; pushes: string[] } | { fanOut: string }) => {
    if ('pushes' in job) taken.set(job.app, [...(taken.get(job.app) ?? []), ...job.pushes]);
  };
  const settings = { redis, onError: () => undefined };
  const worker = createWorker(settings, 'send', jobSchemas.send, record, 1);
  try {
    await until(() => [...taken.values()].flat().length >= PUSHES);
    for (const app of Object.keys(SHARES)) {
      const sent = pushes.filter((push) => push.app === app).map(({ id }) => id);
      expect(taken.get(app)).toEqual(sent);
    }
  } finally {
    await worker.stop();
  }
});

test('a push that is enqueued again has no second job while one waits', async () => {
  const lost = pushes.slice(0, 70).map((push) => ({ ...push, at: new Date(1_000) }));
  await Promise.all(lost.map(producers.resend));
  // Also together with others.
  await Promise.all(
    [...pushes.slice(70, 72), ...lost].map((push) =>
      producers.resend({ at: new Date(1_000), ...push }),
    ),
  );
  expect(await producers.countDue('send')).toBe(72);
  await Promise.all(lost.map((push) => producers.resend({ ...push, at: new Date(2_000) })));
  expect(await producers.countDue('send')).toBe(142);
});

test('a push to several devices has a job of its own', async () => {
  const waiting = await producers.countDue('send');
  const several = [1, 2, 2, 1].map((recipients, n) => ({
    app: 'one',
    id: `several${n}`,
    recipients,
  }));
  await Promise.all(several.map(producers.send));
  expect(await producers.countDue('send')).toBe(waiting + 3);
});
