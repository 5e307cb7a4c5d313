import { expect, test } from '@jest/globals';
import { check } from './checker.ts';
import { acceptedId, type History } from './history.ts';
import { buildPlan } from './plan.ts';
import { DEVICE_SETTINGS, run } from './run.ts';
import { openSystem } from './system.ts';

/** Its faults are of each service but the console, of Redis and of MongoDB, some at the same time. */
const SEED = 15;

/** Counts the recipients of the load that ended as gone. */
function countGone({ pushes, ends }: Pick<History, 'pushes' | 'ends'>): number {
  const counts = pushes.map((push) => ends[acceptedId(push) ?? '']?.counts.gone ?? 0);
  return counts.reduce((sum, count) => sum + count, 0);
}

/** The short form of `npm run soak`. */
test('random faults under a mixed load break no guarantee', async () => {
  const plan = buildPlan({
    ...{ seed: SEED, minutes: 0.5, pushesPerSecond: 10, faultEveryMs: 4_000 },
    ...DEVICE_SETTINGS,
  });
  const log: string[] = [];
  const system = await openSystem();
  try {
    const history = await run(system, plan, (line) => {
      if (line.op === 'fault') log.push(JSON.stringify(line));
    });
    process.stdout.write(`${log.join('\n')}\n`);
    expect(check(history)).toEqual([]);
    expect(history.pushes.length).toBe(plan.pushes.length);
    expect(history.faults.length).toBeGreaterThan(5);
    expect(history.gone.length).toBe(plan.gone.length);
    expect(countGone(history)).toBeGreaterThan(0);
  } finally {
    await system.close();
  }
}, 300_000);
