import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { removeRateLimit } from '../support/carillon.ts';
import { type Attempt, attemptPush } from '../support/faults/attempts.ts';
import { countArrivals } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { until } from '../support/until.ts';

const POOL_SIZE = { registered: 20, real: 20 };
const SENDERS = 4;
const PAUSE_MS = 100;
const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway'];

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture(POOL_SIZE, { apis: 2 });
  await removeRateLimit(fixture.stack);
});
afterAll(() => fixture?.close());

/** Has several senders send without a pause, until they are stopped. Returns the outcome of each push. */
function sendContinuously(): { stop(): Promise<Attempt[]> } {
  const attempts: Attempt[] = [];
  let isStopped = false;
  const send = async () => {
    while (!isStopped) {
      attempts.push(await attemptPush(fixture.stack, fixture.pool.tokens));
      await sleep(PAUSE_MS);
    }
  };
  const senders = Array.from({ length: SENDERS }, send);
  return {
    async stop() {
      isStopped = true;
      await Promise.all(senders);
      return attempts;
    },
  };
}

async function restartAll(): Promise<void> {
  const { stack } = fixture;
  for (const service of SERVICES) {
    await stack.waitForRestart(service, stack.kill(service, 'SIGTERM'));
  }
  await stack.waitForRestart('api', stack.kill('api', 'SIGTERM', 1), 1);
}

test('each service in turn is stopped and restarted, and every push is accepted and arrives', async () => {
  const { pool } = fixture;
  const sending = sendContinuously();
  await restartAll().finally(sending.stop);
  const attempts = await sending.stop();
  expect(attempts.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
  const sent = attempts.flatMap((attempt) => (attempt.isAccepted ? [attempt.push] : []));
  process.stdout.write(`restarts: ${sent.length} pushes, none refused\n`);
  const hasArrived = () =>
    pool.devices.every((device) => sent.every((one) => countArrivals(device, one) > 0));
  await until(hasArrived, { timeoutMs: 40_000, what: 'every push at every device' });
  expect(pool.devices.filter(({ arrivals }) => arrivals.length > sent.length)).toEqual([]);
});
