import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { startRedis } from '../../presence/test/start-server.ts';
import { openBoardQueues } from '../src/board-queues.ts';
import { createProducers, type Producers } from '../src/producers.ts';

const FIVE_MINUTES_MS = 300_000;

let server: Awaited<ReturnType<typeof startRedis>>;
let producers: Producers;
const errors: Error[] = [];
const lost = { app: 'a', id: 'lost', at: new Date(1_000) };
beforeAll(async () => {
  server = await startRedis();
  producers = createProducers(server, (error) => void errors.push(error));
});
afterAll(async () => {
  await producers?.close();
  await server?.stop();
});

const countSendJobs = () => producers.countDue('send').catch(() => -1);

/** Adds a job while Redis does not respond, and returns the number of jobs once it does. */
async function stallDuring(add: () => Promise<unknown>): Promise<number> {
  process.kill(server.pid, 'SIGSTOP');
  await add();
  expect(errors).not.toEqual([]);
  process.kill(server.pid, 'SIGCONT');
  // Redis runs the delayed commands now, whose responses nobody waits for.
  await until(async () => (await countSendJobs()) >= 0);
  errors.splice(0);
  return countSendJobs();
}

test('a queue that was opened while Redis stalled accepts jobs once Redis responds', async () => {
  await until(async () => (await countSendJobs()) === 0);
  const jobs = await stallDuring(() =>
    producers.send({ app: 'a', id: 'during-the-stall', recipients: 1 }),
  );
  await producers.resend({ ...lost, id: 'after-the-stall' });
  expect([await countSendJobs(), errors]).toEqual([jobs + 1, []]);
});

test('a push that got no job again while Redis stalled gets one at the next attempt', async () => {
  const jobs = await countSendJobs();
  await stallDuring(() => producers.resend(lost));
  await producers.resend(lost);
  expect([await countSendJobs(), errors]).toEqual([jobs + 1, []]);
});

test('a step that a fast clock has delayed prevents no other job of the step', async () => {
  const jobs = await countSendJobs();
  const step = { app: 'app', id: 'push', seq: 1 };
  await producers.fanOut({ ...step, delayMs: FIVE_MINUTES_MS });
  await producers.fanOut(step);
  await producers.fanOut(step);
  expect([await countSendJobs(), errors]).toEqual([jobs + 1, []]);
});

test('queues opened for an operator close while Redis is unavailable', async () => {
  const board = await openBoardQueues(server, () => undefined);
  await Promise.all(board.queues.map((queue) => queue.getWaitingCount()));
  await server.stop();
  await board.close();
  expect(board.isReady()).toBe(false);
});
