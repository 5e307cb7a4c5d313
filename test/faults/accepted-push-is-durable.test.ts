import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  countArrivals,
  expectComplete,
  untilAllArrived,
  untilAnotherArrived,
} from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { type Attempt, attemptPush } from '../support/faults/pushes.ts';
import { until } from '../support/until.ts';

const POOL_SIZE = { registered: 100_000, real: 20 };
const BATCHES = 100;
const SMALL_PUSHES = 40;

/** A mongod killed among 100,000 inserts first replays its journal, on a busy machine. */
const JOURNAL_REPLAYED = { timeoutMs: 45_000, what: 'the API to respond again' };

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture(POOL_SIZE);
});
afterAll(() => fixture?.close());

test('with mongod killed in the middle of accepting, every push that got its 200 is whole', async () => {
  const { stack, pool } = fixture;
  const tokens = pool.devices.map(({ token }) => token);
  let small: Promise<Attempt>[] = [];
  const { attempt: big, id } = await sendUntilHalfAccepted(() => {
    small = Array.from({ length: SMALL_PUSHES }, () => attemptPush(stack, tokens));
  });
  const old = stack.kill('mongodb', 'SIGKILL');
  const attempts = await Promise.all(small);
  await stack.waitForRestart('mongodb', old);
  await until(isApiResponding, JOURNAL_REPLAYED);
  for (const attempt of attempts) await expectArrivedIfAccepted(attempt);
  await expectCompleteOrAbsent(id, await big);
});

test('pushes that got their 200 right before mongod is killed are there after the restart', async () => {
  const { stack, pool } = fixture;
  const tokens = pool.devices.map(({ token }) => token);
  const attempts = await Promise.all(Array.from({ length: 10 }, () => attemptPush(stack, tokens)));
  const old = stack.kill('mongodb', 'SIGKILL');
  expect(attempts.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
  await stack.waitForRestart('mongodb', old);
  await until(isApiResponding, JOURNAL_REPLAYED);
  for (const attempt of attempts) await expectArrivedIfAccepted(attempt);
});

async function isApiResponding(): Promise<boolean> {
  return (await fixture.stack.api('GET', '/topics')).status === 200;
}

/** A push of which some batches are stored and not all; one that was accepted unseen is followed by another. */
async function sendUntilHalfAccepted(
  onSent: () => void,
): Promise<{ attempt: Promise<Attempt>; id: string }> {
  const { db } = fixture.mongo;
  for (;;) {
    const known = await db.collection('pushes').distinct('_id', { state: 'accepting' });
    const attempt = attemptPush(fixture.stack, fixture.pool.tokens);
    let hasEnded = false;
    const end = () => {
      hasEnded = true;
    };
    attempt.then(end, end);
    onSent();
    const halfAccepted = async () => {
      const fresh = { state: 'accepting', _id: { $nin: known } };
      const push = await db.collection('pushes').findOne(fresh, { projection: { _id: 1 } });
      if (push === null) return hasEnded && 'unseen';
      const id = String(push._id);
      const batches = await db.collection('batches').countDocuments({ push: id });
      return batches > 0 && batches < BATCHES && id;
    };
    const id = await until(halfAccepted, { everyMs: 0, what: 'a push that is half accepted' });
    if (id !== 'unseen') return { attempt, id };
  }
}

async function expectArrivedIfAccepted(attempt: Attempt): Promise<void> {
  if (attempt.isAccepted) await untilAllArrived(fixture.pool.devices, [attempt.push]);
}

/** A missing response leaves two possible ends, and nothing in between (guarantee G2). */
async function expectCompleteOrAbsent(id: string, attempt: Attempt): Promise<void> {
  const pushes = fixture.mongo.db.collection<{ _id: string; state: string }>('pushes');
  const isOpen = (await pushes.findOne({ _id: id }))?.state === 'open';
  process.stdout.write(`mongod killed: ${attempt.isAccepted}, push there: ${isOpen}\n`);
  if (attempt.isAccepted) expect(isOpen).toBe(true);
  if (!isOpen) {
    // No device has it, although one sent later has arrived everywhere.
    await untilAnotherArrived(fixture.stack, fixture.pool.devices);
    expect(fixture.pool.devices.filter((device) => countArrivals(device, attempt) > 0)).toEqual([]);
    return;
  }
  const push = { id, payload: attempt.payload, devices: fixture.pool.tokens.length };
  await expectComplete(fixture, push, 'mongod killed while it accepted');
}
