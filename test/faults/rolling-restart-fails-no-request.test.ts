import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { untilAllArrived } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixtureOn } from '../support/faults/fixture.ts';
import { sendDuring } from '../support/faults/steady-pushes.ts';
import { useKillableStack } from '../support/shared-stack.ts';

const DEVICES = 20;
const LOAD = { perSecond: 15, perPush: DEVICES };
const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway'];

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixtureOn(await useKillableStack(), { registered: DEVICES, real: DEVICES });
});
afterAll(() => fixture?.close());

test('each process in turn is stopped and restarted, and every push is accepted and arrives', async () => {
  const { stack, pool } = fixture;
  const attempts = await sendDuring(stack, pool.devices, LOAD, async () => {
    for (const service of SERVICES)
      for (const index of [0, 1])
        await stack.waitForRestart(service, stack.kill(service, 'SIGTERM', index), index);
  });
  const refused = attempts.flatMap(({ to: _, ...one }) => (one.isAccepted ? [] : [one]));
  expect(refused).toEqual([]);
  process.stdout.write(`restarts: ${attempts.length} pushes, none refused\n`);
  await untilAllArrived(pool.devices, attempts);
  expect(pool.devices.filter(({ arrivals }) => arrivals.length > attempts.length)).toEqual([]);
});
