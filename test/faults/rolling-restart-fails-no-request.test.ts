import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type Attempt, attemptPush } from '../support/faults/attempts.ts';
import { untilAllArrived } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixtureOn } from '../support/faults/fixture.ts';
import { useKillableStack } from '../support/shared-stack.ts';

const POOL_SIZE = { registered: 20, real: 20 };
const SENDERS = 4;
const PAUSE_MS = 100;
const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway'];

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixtureOn(await useKillableStack(), POOL_SIZE);
});
afterAll(() => fixture?.close());

/** Has several senders send during a task. Returns the outcome of each push. */
async function sendDuring(task: () => Promise<void>): Promise<Attempt[]> {
  const attempts: Attempt[] = [];
  let isOver = false;
  const send = async () => {
    while (!isOver) {
      attempts.push(await attemptPush(fixture.stack, fixture.pool.tokens));
      await sleep(PAUSE_MS);
    }
  };
  const senders = Array.from({ length: SENDERS }, send);
  await task().finally(() => {
    isOver = true;
  });
  await Promise.all(senders);
  return attempts;
}

test('each process in turn is stopped and restarted, and every push is accepted and arrives', async () => {
  const { stack, pool } = fixture;
  const attempts = await sendDuring(async () => {
    for (const service of SERVICES)
      for (const index of [0, 1])
        await stack.waitForRestart(service, stack.kill(service, 'SIGTERM', index), index);
  });
  expect(attempts.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
  process.stdout.write(`restarts: ${attempts.length} pushes, none refused\n`);
  await untilAllArrived(pool.devices, attempts);
  expect(pool.devices.filter(({ arrivals }) => arrivals.length > attempts.length)).toEqual([]);
});
