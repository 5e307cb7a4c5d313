import { expect } from '@jest/globals';
import { countArrivals } from '../faults/expect-complete.ts';
import type { Fixture } from '../faults/fixture.ts';
import { sendPush } from '../faults/pushes.ts';
import { expectWholeOrAbsent, sendDuring } from '../faults/steady-pushes.ts';
import { until } from '../until.ts';

const LOAD = { perSecond: 20, perPush: 2 };
const PUSHES = 40;
const RECOVERED_MS = 60_000;

/** A fault of a set of servers. */
export interface ServerFault {
  /** What happens, for the output. */
  label: string;
  begin(): Promise<void> | void;
  /** Waits until the servers are whole again without the one that failed; returns at once if none was replaced. */
  untilReplaced(): Promise<unknown>;
  /** Brings the server back. */
  end(): Promise<void> | void;
}

/**
 * Expects that a fault under load loses no push and refuses none, that no process ends, and that pushes are delivered once
 * the servers are whole again; prints how long after.
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
    await untilReplaced();
    const replacedAt = performance.now();
    const push = await sendPush(stack, tokens);
    const hasArrived = () => pool.devices.every((device) => countArrivals(device, push) > 0);
    await until(hasArrived, { timeoutMs: RECOVERED_MS, what: `delivery after ${label}` });
    recoveredMs = performance.now() - replacedAt;
    await load.untilAccepted(PUSHES);
    await end();
    await load.untilAccepted(PUSHES);
  });
  process.stdout.write(`${label}: delivered ${Math.round(recoveredMs)} ms after the replacement\n`);
  expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
  await expectWholeOrAbsent(label, fixture, sent);
  // No process of the stack has ended and was started again.
  expect(stack.output()).not.toMatch(/ ended \(/);
}
