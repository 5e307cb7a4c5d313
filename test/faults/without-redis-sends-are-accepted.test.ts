import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type Attempt, attemptPush } from '../support/faults/attempts.ts';
import {
  isMidway,
  type SentPush,
  sendPush,
  untilMidway,
  workStates,
} from '../support/faults/pushes.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { openScene, type Scene } from '../support/faults/scene.ts';
import { countOf, DOUBLES_PER_RECIPIENT, expectWhole } from '../support/faults/whole.ts';
import { until } from '../support/until.ts';

const CROWD = { registered: 30_000, real: 40 };
/** Guarantee G14, and how long Redis is away. */
const AWAY_MS = 60_000;
const SEND_EVERY_MS = 500;
const ACCEPTED_WITHIN_MS = 1_000;
const GOES_ON_WITHIN_MS = 10_000;

const HOLDERS = 6;

let scene: Scene;
let redis: RedisServer;
beforeAll(async () => {
  redis = await createRedisServer();
  await redis.start();
  scene = await openScene(CROWD, { env: { REDIS_URL: redis.url } });
});
afterAll(async () => {
  await scene?.close();
  await redis?.remove();
});

/** Sends to the real devices all the while that Redis is away. */
async function sendMeanwhile(): Promise<Attempt[]> {
  const { stack, crowd } = scene;
  const tokens = crowd.devices.map(({ token }) => token);
  const attempts: Attempt[] = [];
  const end = performance.now() + AWAY_MS;
  while (performance.now() < end) {
    attempts.push(await attemptPush(stack, tokens));
    await sleep(SEND_EVERY_MS);
  }
  return attempts;
}

/** Counts doubles over all the pushes together. */
function expectFewDoublesIn(sent: readonly SentPush[]): void {
  const { devices } = scene.crowd;
  const arrived = devices.flatMap((device) => sent.map((one) => countOf(device, one)));
  const doubles = arrived.reduce((sum, n) => sum + Math.max(0, n - 1), 0);
  process.stdout.write(`doubles sent without Redis: ${doubles} of ${arrived.length} recipients\n`);
  expect(doubles).toBeLessThanOrEqual(Math.floor(arrived.length * DOUBLES_PER_RECIPIENT));
}

test('for a minute, and delivery goes on when it is back', async () => {
  const { stack, mongo, crowd } = scene;
  // They keep a few batches open.
  const holders = crowd.devices.slice(0, HOLDERS);
  for (const device of holders) device.holdReceipts();
  const push = await sendPush(stack, crowd.tokens);
  await untilMidway(mongo, push);
  await redis.kill();
  expect(isMidway(await workStates(mongo, push))).toBe(true);
  for (const device of holders) device.releaseReceipts();
  const attempts = await sendMeanwhile();
  await redis.start();
  const sent = attempts.flatMap((attempt) => (attempt.isAccepted ? [attempt.push] : []));
  const isHere = () => crowd.devices.some((device) => sent.some((one) => countOf(device, one) > 0));
  await until(isHere, { timeoutMs: GOES_ON_WITHIN_MS, what: 'delivery to go on' });
  expect(attempts.filter((attempt) => !attempt.isAccepted)).toEqual([]);
  expect(Math.max(...attempts.map(({ tookMs }) => tookMs))).toBeLessThan(ACCEPTED_WITHIN_MS);
  await expectWhole(scene, push, 'Redis away');
  const hasAll = () =>
    crowd.devices.every((device) => sent.every((one) => countOf(device, one) > 0));
  await until(hasAll, { timeoutMs: 30_000, what: 'all that was sent meanwhile' });
  expectFewDoublesIn(sent);
}, 180_000);
