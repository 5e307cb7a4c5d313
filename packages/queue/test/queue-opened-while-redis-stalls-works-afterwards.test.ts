import { connectRedis, type Redis } from '@carillon/presence/redis';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { startRedis } from '../../presence/test/start-server.ts';
import { createProducers, type Producers } from '../src/producers.ts';

/** Longer than a producer waits for Redis. */
const STALL_MS = 1_500;

let server: Awaited<ReturnType<typeof startRedis>>;
let redis: Redis;
let producers: Producers;
const errors: Error[] = [];
const lost = { app: 'a', id: 'lost', at: new Date(1_000) };
beforeAll(async () => {
  server = await startRedis();
  redis = await connectRedis(server);
  producers = createProducers(server, (error) => void errors.push(error));
});
afterAll(async () => {
  await producers?.close();
  redis?.disconnect();
  await server?.stop();
});

const countSendJobs = () => producers.countDue('send').catch(() => -1);

test('a queue that was opened while Redis stalled accepts jobs once Redis responds', async () => {
  await until(async () => (await countSendJobs()) === 0);
  await redis.client('PAUSE', STALL_MS, 'ALL');
  await producers.send({ app: 'a', id: 'during-the-stall', recipients: 1 });
  expect(errors).not.toEqual([]);
  await until(async () => (await countSendJobs()) >= 0);
  errors.splice(0);
  const jobs = await countSendJobs();
  await producers.resend({ ...lost, id: 'after-the-stall' });
  expect([await countSendJobs(), errors]).toEqual([jobs + 1, []]);
});

test('a push that got no job again while Redis stalled gets one at the next attempt', async () => {
  await until(async () => (await countSendJobs()) >= 0);
  const jobs = await countSendJobs();
  await redis.client('PAUSE', STALL_MS, 'ALL');
  await producers.resend(lost);
  expect(errors.splice(0)).not.toEqual([]);
  // Redis runs the delayed commands now, whose responses nobody waits for.
  await until(async () => (await countSendJobs()) >= 0);
  errors.splice(0);
  await producers.resend(lost);
  expect([await countSendJobs(), errors]).toEqual([jobs + 1, []]);
});
