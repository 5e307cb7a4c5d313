import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type Attempt, attemptPush } from '../support/faults/attempts.ts';
import {
  countArrivals,
  expectComplete,
  MAX_DUPLICATES_PER_RECIPIENT,
} from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import {
  countBatchStates,
  isPartlyClosed,
  type SentPush,
  sendPush,
  untilPartlyClosed,
} from '../support/faults/pushes.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { until } from '../support/until.ts';

const POOL_SIZE = { registered: 30_000, real: 40 };
/** Guarantee G14, and how long Redis is unavailable. */
const AWAY_MS = 60_000;
const SEND_EVERY_MS = 500;
const ACCEPTED_WITHIN_MS = 1_000;
const RESUME_TIMEOUT_MS = 10_000;

const UNACKNOWLEDGING = 6;

let fixture: Fixture;
let redis: RedisServer;
beforeAll(async () => {
  redis = await createRedisServer();
  await redis.start();
  fixture = await openFixture(POOL_SIZE, { env: { REDIS_URL: redis.url } });
});
afterAll(async () => {
  await fixture?.close();
  await redis?.remove();
});

/** Sends to the real devices as long as Redis is unavailable. */
async function sendDuringOutage(): Promise<Attempt[]> {
  const { stack, pool } = fixture;
  const tokens = pool.devices.map(({ token }) => token);
  const attempts: Attempt[] = [];
  const end = performance.now() + AWAY_MS;
  while (performance.now() < end) {
    attempts.push(await attemptPush(stack, tokens));
    await sleep(SEND_EVERY_MS);
  }
  return attempts;
}

/** Counts duplicates over all the pushes together. */
function expectFewDuplicatesIn(sent: readonly SentPush[]): void {
  const { devices } = fixture.pool;
  const arrived = devices.flatMap((device) => sent.map((one) => countArrivals(device, one)));
  const duplicates = arrived.reduce((sum, n) => sum + Math.max(0, n - 1), 0);
  process.stdout.write(
    `duplicates sent without Redis: ${duplicates} of ${arrived.length} recipients\n`,
  );
  expect(duplicates).toBeLessThanOrEqual(Math.floor(arrived.length * MAX_DUPLICATES_PER_RECIPIENT));
}

test('for a minute, and delivery continues after the restart', async () => {
  const { stack, mongo, pool } = fixture;
  // They keep a few batches open.
  const holders = pool.devices.slice(0, UNACKNOWLEDGING);
  for (const device of holders) device.holdReceipts();
  const push = await sendPush(stack, pool.tokens);
  await untilPartlyClosed(mongo, push);
  await redis.kill();
  expect(isPartlyClosed(await countBatchStates(mongo, push))).toBe(true);
  for (const device of holders) device.releaseReceipts();
  const attempts = await sendDuringOutage();
  await redis.start();
  const sent = attempts.flatMap((attempt) => (attempt.isAccepted ? [attempt.push] : []));
  const hasArrived = () =>
    pool.devices.some((device) => sent.some((one) => countArrivals(device, one) > 0));
  await until(hasArrived, { timeoutMs: RESUME_TIMEOUT_MS, what: 'delivery to continue' });
  expect(attempts.filter((attempt) => !attempt.isAccepted)).toEqual([]);
  expect(Math.max(...attempts.map(({ tookMs }) => tookMs))).toBeLessThan(ACCEPTED_WITHIN_MS);
  await expectComplete(fixture, push, 'Redis unavailable');
  const hasAll = () =>
    pool.devices.every((device) => sent.every((one) => countArrivals(device, one) > 0));
  await until(hasAll, { timeoutMs: 30_000, what: 'all pushes sent meanwhile' });
  expectFewDuplicatesIn(sent);
}, 180_000);
