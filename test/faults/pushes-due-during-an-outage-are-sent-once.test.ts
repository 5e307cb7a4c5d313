import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { removeRateLimit } from '../support/carillon.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { type SentPush, sendPush } from '../support/faults/pushes.ts';
import { crashAndRecover } from '../support/guarantees/crash-stack.ts';
import { until } from '../support/until.ts';

const PUSHES = 1_000;
const DEVICES = 20;
const AT_ONCE = 20;
/** Longer than accepting all pushes takes. */
const DUE_AFTER_SECONDS = 25;
/** The outage lasts at least so long after the pushes are due. */
const LATE_MS = 2_000;
const LIMIT_MS = 180_000;

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { deliveryWorkers: 2 });
  await removeRateLimit(fixture.stack);
});
afterAll(() => fixture?.close());

const tokenOf = (index: number) => fixture.pool.tokens[index % DEVICES] ?? '';

/** Schedules all pushes for one second, and returns them with that second. */
async function schedule(): Promise<{ pushes: SentPush[]; dueAt: number }> {
  const dueAt = Math.ceil(Date.now() / 1_000) + DUE_AFTER_SECONDS;
  const pushes: SentPush[] = [];
  let next = 0;
  const sendNext = async () => {
    for (let index = next++; index < PUSHES; index = next++)
      pushes.push(await sendPush(fixture.stack, tokenOf(index), { schedule: dueAt }));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, sendNext));
  // Otherwise nothing was down when they were due.
  expect(Date.now()).toBeLessThan(dueAt * 1_000);
  return { pushes, dueAt };
}

const untilLate = (dueAt: number) =>
  until(() => Date.now() > dueAt * 1_000 + LATE_MS, {
    timeoutMs: (DUE_AFTER_SECONDS + 10) * 1_000,
    everyMs: 200,
  });

const listArrivals = () =>
  fixture.pool.devices.flatMap(({ arrivals }) => arrivals.map(({ payload }) => payload));

/** Waits until all pushes have ended as delivered, and expects each to have arrived once. */
async function expectSentOnce(pushes: readonly SentPush[]): Promise<void> {
  const { mongo } = fixture;
  const ids = pushes.map(({ id }) => id);
  const delivered = { _id: { $in: ids }, 'counts.delivered': 1 };
  const areDelivered = async () =>
    (await mongo.db.collection<{ _id: string }>('pushes').countDocuments(delivered)) === PUSHES;
  await until(areDelivered, { timeoutMs: 60_000, everyMs: 200, what: 'all pushes delivered' });
  const payloads = new Set(pushes.map(({ payload }) => payload));
  const arrived = listArrivals().filter((payload) => payloads.has(payload));
  expect(arrived.sort()).toEqual([...payloads].sort());
}

test(
  'all services are down',
  async () => {
    const { pushes, dueAt } = await schedule();
    await crashAndRecover(fixture.stack, () => untilLate(dueAt), ['redis', 'mongodb']);
    await expectSentOnce(pushes);
  },
  LIMIT_MS,
);

test(
  'all services, MongoDB and Redis are down, and Redis restarts empty',
  async () => {
    const { pushes, dueAt } = await schedule();
    const folder = join(fixture.stack.home, 'redis');
    await crashAndRecover(fixture.stack, async () => {
      const files = await readdir(folder);
      expect(files).not.toEqual([]);
      await Promise.all(files.map((file) => rm(join(folder, file), { recursive: true })));
      await untilLate(dueAt);
    });
    await expectSentOnce(pushes);
  },
  LIMIT_MS,
);
