import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { removeRateLimit } from '../support/carillon.ts';
import { untilAllArrived } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { sendDuring } from '../support/faults/steady-pushes.ts';

const DEVICES = 20;
const LOAD = { perSecond: 15, perPush: DEVICES };
const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway'];

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { apis: 2 });
  await removeRateLimit(fixture.stack);
}, 180_000);
afterAll(() => fixture?.close());

test('each service in turn is stopped and restarted, and every push is accepted and arrives', async () => {
  const { stack, pool } = fixture;
  const attempts = await sendDuring(stack, pool.devices, LOAD, async () => {
    for (const service of SERVICES)
      await stack.waitForRestart(service, stack.kill(service, 'SIGTERM'));
    await stack.waitForRestart('api', stack.kill('api', 'SIGTERM', 1), 1);
  });
  const refused = attempts.flatMap(({ to: _, ...one }) => (one.isAccepted ? [] : [one]));
  expect(refused).toEqual([]);
  process.stdout.write(`restarts: ${attempts.length} pushes, none refused\n`);
  await untilAllArrived(pool.devices, attempts);
  expect(pool.devices.filter(({ arrivals }) => arrivals.length > attempts.length)).toEqual([]);
});
