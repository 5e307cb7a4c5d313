import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { untilAllArrived } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import {
  countWritesDuring,
  type MongoWrites,
  untilNoWrites,
} from '../support/faults/mongo-writes.ts';
import { type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { readMetric } from '../support/metric-values.ts';
import { findProcess } from '../support/stack/dev-file.ts';
import { until } from '../support/until.ts';

const REAL = 500;
/** A push, its claim and its settlement; the rest is for what services write by the clock. */
const WRITES_PER_PUSH = 4;
/** The gateway reports its counts once a second. */
const REPORTED_WITHIN_MS = 10_000;
const MAX_ROUNDS = 20;

let fixture: Fixture;
beforeAll(async () => {
  // All writes of its MongoDB count, whichever app has caused them.
  fixture = await openFixture({ registered: REAL, real: REAL }, { sandbox: false });
});
afterAll(() => fixture?.close());

/** Sends to the first devices one push after the other, each once the one before has arrived. */
async function deliver(pushes: number, devices: number): Promise<void> {
  const { stack, mongo, pool } = fixture;
  const some = pool.devices.slice(0, devices);
  const tokens = some.map(({ token }) => token);
  const sent: SentPush[] = [];
  for (let n = 0; n < pushes; n += 1) {
    const push = await sendPush(stack, tokens);
    await untilAllArrived(some, [push]);
    sent.push(push);
  }
  for (const push of sent) await untilOutcomes(mongo, push, { delivered: devices });
}

/** Checks that the gateway has answered for `count` recipients during a task, and for each with a receipt in time. */
async function areInTime(count: number, task: () => Promise<void>): Promise<boolean> {
  const { ops } = findProcess(fixture.stack.dev, 'device-gateway', 0);
  const readAnswers = () => readMetric(ops, 'carillon_gateway_answers_total');
  const before = await readAnswers();
  await task();
  const readReported = async () => {
    const added = Object.entries(await readAnswers()).map(
      ([answer, n]) => [answer, n - (before[answer] ?? 0)] as const,
    );
    return added.reduce((sum, [, n]) => sum + n, 0) >= count && added;
  };
  // A device that a worker has found offline has no answer.
  const added = await until(readReported, { timeoutMs: REPORTED_WITHIN_MS }).catch(() => undefined);
  return added?.every(([answer, n]) => answer === 'acknowledged' || n === 0) ?? false;
}

/**
 * Delivers until all receipts of a round were in time: a late one, as on a busy machine, costs an inbox row (guarantee G4).
 *
 * @returns the writes of that round
 */
async function countWrites(pushes: number, devices: number): Promise<MongoWrites> {
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    await untilNoWrites(fixture.mongo);
    let writes: MongoWrites | undefined;
    const hasHeld = await areInTime(pushes * devices, async () => {
      writes = await countWritesDuring(fixture.mongo, () => deliver(pushes, devices));
    });
    if (hasHeld && writes !== undefined) return writes;
  }
  throw new Error('each round had a late receipt');
}

test.each([
  [200, 1],
  [10, REAL],
])(
  '%d pushes to %d connected devices each: no inbox row, and as many writes as for one',
  async (pushes, devices) => {
    const { documents, rows } = await countWrites(pushes, devices);
    process.stdout.write(`writes: ${documents / pushes} documents a push to ${devices}\n`);
    expect(rows).toBe(0);
    expect(documents / pushes).toBeLessThanOrEqual(WRITES_PER_PUSH);
  },
);
