import { connectRedis, type Redis } from '@carillon/presence/redis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { startRedis } from '../../presence/test/start-server.ts';
import { createProducers, type Producers } from '../src/producers.ts';

const FIVE_MINUTES_MS = 300_000;

let server: Awaited<ReturnType<typeof startRedis>>;
let redis: Redis;
let producers: Producers;
const errors: Error[] = [];
const onError = (error: Error) => void errors.push(error);
beforeAll(async () => {
  server = await startRedis();
  redis = await connectRedis(server);
});
beforeEach(async () => {
  await redis.flushall();
  producers = createProducers(server, onError);
  // It counts once it is connected.
  await until(async () => (await producers.countDue('send').catch(() => -1)) === 0);
});
afterEach(async () => {
  await producers.close();
  expect(errors.splice(0)).toEqual([]);
});
afterAll(async () => {
  redis?.disconnect();
  await server?.stop();
});

test('a step that a fast clock has delayed prevents no other job of the step', async () => {
  await producers.fanOut('push', { seq: 1, delayMs: FIVE_MINUTES_MS });
  await producers.fanOut('push', { seq: 1 });
  await producers.fanOut('push', { seq: 1 });
  expect(await producers.countDue('send')).toBe(1);
});
