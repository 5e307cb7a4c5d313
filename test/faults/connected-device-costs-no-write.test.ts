import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { countArrivals } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixtureOn } from '../support/faults/fixture.ts';
import { countWritesDuring, untilNoWrites } from '../support/faults/mongo-writes.ts';
import { type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const REAL = 500;
const PUSHES = 200;
const ROUNDS = 10;
/** A push, its claim and its settlement; the rest is for what services write by the clock. */
const WRITES_PER_PUSH = 4;

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixtureOn(await useKillableStack(), { registered: REAL, real: REAL });
  await untilNoWrites(fixture.mongo);
});
afterAll(() => fixture?.close());

/** Sends to the first devices one push after the other, each once the one before has arrived. */
async function deliver(pushes: number, devices: number): Promise<void> {
  const { stack, mongo, pool } = fixture;
  const sent: SentPush[] = [];
  for (let n = 0; n < pushes; n += 1) {
    const some = pool.devices.slice(0, devices);
    const push = await sendPush(
      stack,
      some.map(({ token }) => token),
    );
    await until(() => some.every((device) => countArrivals(device, push) === 1), { everyMs: 5 });
    sent.push(push);
  }
  for (const push of sent) await untilOutcomes(mongo, push, { delivered: devices });
}

test('two hundred pushes to connected devices write nothing into an inbox', async () => {
  const { documents, rows } = await countWritesDuring(fixture.mongo, () => deliver(PUSHES, 1));
  process.stdout.write(`writes: ${documents / PUSHES} documents a push\n`);
  expect(rows).toBe(0);
  expect(documents / PUSHES).toBeLessThanOrEqual(WRITES_PER_PUSH);
});

test('a push to five hundred devices costs no more writes than a push to one', async () => {
  const toOne = await countWritesDuring(fixture.mongo, () => deliver(ROUNDS, 1));
  const toAll = await countWritesDuring(fixture.mongo, () => deliver(ROUNDS, REAL));
  process.stdout.write(`writes: to 1 ${toOne.documents}, to ${REAL} ${toAll.documents}\n`);
  expect(toAll.rows).toBe(0);
  expect(toAll.documents).toBeLessThanOrEqual(ROUNDS * WRITES_PER_PUSH);
});
