import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { startRedis } from '../../presence/test/start-server.ts';
import { createProducers, type Producers } from '../src/producers.ts';

const FIVE_MINUTES_MS = 300_000;

let server: Awaited<ReturnType<typeof startRedis>>;
let producers: Producers;
const errors: Error[] = [];
beforeAll(async () => {
  server = await startRedis();
  producers = createProducers(server, (error) => void errors.push(error));
});
afterAll(async () => {
  await producers?.close();
  await server?.stop();
});

test('a step that a fast clock has delayed prevents no other job of the step', async () => {
  // It counts once it is connected.
  await until(async () => (await producers.countDue('send').catch(() => -1)) === 0);
  await producers.fanOut('push', { seq: 1, delayMs: FIVE_MINUTES_MS });
  await producers.fanOut('push', { seq: 1 });
  await producers.fanOut('push', { seq: 1 });
  expect(await producers.countDue('send')).toBe(1);
  expect(errors).toEqual([]);
});
