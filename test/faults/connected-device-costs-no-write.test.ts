import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { untilAllArrived } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { countWritesDuring, untilNoWrites } from '../support/faults/mongo-writes.ts';
import { type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';

const REAL = 500;
/** A push, its claim and its settlement; the rest is for what services write by the clock. */
const WRITES_PER_PUSH = 4;

let fixture: Fixture;
beforeAll(async () => {
  // All writes of its MongoDB count, whichever app has caused them.
  fixture = await openFixture({ registered: REAL, real: REAL }, { sandbox: false });
  await untilNoWrites(fixture.mongo);
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

test.each([
  [200, 1],
  [10, REAL],
])(
  '%d pushes to %d connected devices each: no inbox row, and as many writes as for one',
  async (pushes, devices) => {
    const { documents, rows } = await countWritesDuring(fixture.mongo, () =>
      deliver(pushes, devices),
    );
    process.stdout.write(`writes: ${documents / pushes} documents a push to ${devices}\n`);
    expect(rows).toBe(0);
    expect(documents / pushes).toBeLessThanOrEqual(WRITES_PER_PUSH);
  },
);
