import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { queueKey } from '../../packages/queue/src/queue-keys.ts';
import { countArrivals } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { emptyRedis, openRedis } from '../support/redis.ts';

const REAL = 20;
const WORKER = 'delivery-worker';
const INTERVAL_MS = 10;
const BEFORE_FAULT = 60;
const AFTER_FAULT = 120;
/** Shorter than a lease. */
const FROZEN_MS = 3_000;
/** Pushes that are sent at once, and the most jobs that they may have: the API gathers them. */
const AT_ONCE = 100;
const MAX_JOBS = 50;

let fixture: Fixture;
let redis: Redis;
beforeAll(async () => {
  fixture = await openFixture({ registered: REAL, real: REAL }, { deliveryWorkers: 2 });
  redis = await openRedis(fixture.stack.dev);
});
afterAll(async () => {
  redis?.disconnect();
  await fixture?.close();
});

/** Sends pushes in quick succession, each to one connected device, with a fault in the middle. */
async function sendThroughout(fault: () => Promise<unknown>): Promise<SentPush[]> {
  const sending: Promise<SentPush>[] = [];
  let fallingOut: Promise<unknown> = Promise.resolve();
  for (let n = 0; n < BEFORE_FAULT + AFTER_FAULT; n += 1) {
    if (n === BEFORE_FAULT) fallingOut = fault();
    sending.push(sendPush(fixture.stack, deviceFor(n).token));
    await sleep(INTERVAL_MS);
  }
  await fallingOut;
  return Promise.all(sending);
}

function deviceFor(n: number) {
  const device = fixture.pool.devices[n % REAL];
  if (device === undefined) throw new Error('there is no device');
  return device;
}

/** Expects that each push is delivered, and arrived once. */
async function expectDelivered(pushes: readonly SentPush[]): Promise<void> {
  for (const push of pushes) await untilOutcomes(fixture.mongo, push, { delivered: 1 });
  const arrivals = pushes.map((push, n) => countArrivals(deviceFor(n), push));
  expect(arrivals.filter((count) => count === 0)).toEqual([]);
  const duplicates = arrivals.filter((count) => count > 1).length;
  process.stdout.write(`duplicates: ${duplicates} of ${pushes.length} recipients\n`);
  expect(duplicates).toBe(0);
}

const countAddedJobs = async () => Number((await redis.get(queueKey(redis, 'send', 'id'))) ?? 0);

test('without a fault, pushes of the same moment share jobs', async () => {
  const before = await countAddedJobs();
  const numbers = Array.from({ length: AT_ONCE }, (_, n) => n);
  const pushes = await Promise.all(numbers.map((n) => sendPush(fixture.stack, deviceFor(n).token)));
  await expectDelivered(pushes);
  expect((await countAddedJobs()) - before).toBeLessThan(MAX_JOBS);
});

/** Ends both workers by a signal, one after the other. */
async function endWorkers(signal: NodeJS.Signals): Promise<void> {
  const { stack } = fixture;
  for (const index of [0, 1])
    await stack.waitForRestart(WORKER, stack.kill(WORKER, signal, index), index);
}

async function freezeWorkers(): Promise<void> {
  for (const index of [0, 1]) fixture.stack.kill(WORKER, 'SIGSTOP', index);
  await sleep(FROZEN_MS);
  for (const index of [0, 1]) fixture.stack.kill(WORKER, 'SIGCONT', index);
}

test.each<[string, () => Promise<unknown>]>([
  ['both workers are killed, one after the other', () => endWorkers('SIGKILL')],
  ['both workers are stopped', () => endWorkers('SIGTERM')],
  ['both workers are frozen for a while', freezeWorkers],
  ['Redis is emptied', () => emptyRedis(redis)],
])('%s', async (_what, fault) => expectDelivered(await sendThroughout(fault)));
