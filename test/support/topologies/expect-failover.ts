import { expect } from '@jest/globals';
import { countArrivals } from '../faults/expect-complete.ts';
import type { Fixture } from '../faults/fixture.ts';
import { sendPush } from '../faults/pushes.ts';
import { expectWholeOrAbsent, sendDuring } from '../faults/steady-pushes.ts';
import { until } from '../until.ts';

const LOAD = { perSecond: 20, perPush: 2 };
const PUSHES = 40;
/** Pushes are delivered again within this time of the new primary. */
const RECOVERED_MS = 10_000;
/** Long enough to show by how much it was missed. */
const WAITED_MS = 60_000;

/** A fault of a set of servers. */
export interface ServerFault {
  /** Name of the fault, for the output. */
  label: string;
  begin(): Promise<void> | void;
  /** Waits until there is a new primary; absent if none was replaced. */
  untilReplaced?(): Promise<unknown>;
  /** Brings the server back. */
  end(): Promise<void> | void;
}

/**
 * Expects that a fault under load loses no push and refuses none, that no process ends, and that pushes are delivered within
 * 10 s of the new primary; prints how long after it, or after a fault that has replaced none.
 */
export async function expectFaultLosesNothing(
  fixture: Fixture,
  { label, begin, untilReplaced, end }: ServerFault,
): Promise<void> {
  const { stack, pool } = fixture;
  const tokens = pool.devices.map(({ token }) => token);
  let recoveredMs = 0;
  const sent = await sendDuring(stack, pool.devices, LOAD, async (load) => {
    await load.untilAccepted(PUSHES);
    await begin();
    await untilReplaced?.();
    const replacedAt = performance.now();
    const push = await sendPush(stack, tokens);
    const hasArrived = () => pool.devices.every((device) => countArrivals(device, push) > 0);
    await until(hasArrived, { timeoutMs: WAITED_MS, what: `delivery after ${label}` });
    recoveredMs = performance.now() - replacedAt;
    await load.untilAccepted(PUSHES);
    await end();
    await load.untilAccepted(PUSHES);
  });
  const from = untilReplaced === undefined ? 'it' : 'the new primary';
  process.stdout.write(`${label}: delivered ${Math.round(recoveredMs)} ms after ${from}\n`);
  if (untilReplaced !== undefined) expect(recoveredMs).toBeLessThanOrEqual(RECOVERED_MS);
  expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
  await expectWholeOrAbsent(label, fixture, sent);
  // No process of the stack has ended and was started again.
  expect(stack.output()).not.toMatch(/ ended \(/);
}
