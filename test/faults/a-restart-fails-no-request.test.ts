import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { liftRateLimit } from '../support/carillon.ts';
import { type Attempt, attemptPush } from '../support/faults/attempts.ts';
import { openScene, type Scene } from '../support/faults/scene.ts';
import { countOf } from '../support/faults/whole.ts';
import { until } from '../support/until.ts';

const CROWD = { registered: 20, real: 20 };
const SENDERS = 4;
const PAUSE_MS = 100;
const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway'];

let scene: Scene;
beforeAll(async () => {
  scene = await openScene(CROWD, { apis: 2 });
  await liftRateLimit(scene.stack);
});
afterAll(() => scene?.close());

/** Has several senders send without a pause, until they are stopped; gives what became of each push. */
function keepSending(): { stop(): Promise<Attempt[]> } {
  const attempts: Attempt[] = [];
  let isStopped = false;
  const send = async () => {
    while (!isStopped) {
      attempts.push(await attemptPush(scene.stack, scene.crowd.tokens));
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
  const { stack } = scene;
  for (const service of SERVICES) {
    await stack.waitForRestart(service, stack.kill(service, 'SIGTERM'));
  }
  await stack.waitForRestart('api', stack.kill('api', 'SIGTERM', 1), 1);
}

test('one service after the other is told to stop, and every push is accepted and arrives', async () => {
  const { crowd } = scene;
  const sending = keepSending();
  await restartAll().finally(sending.stop);
  const attempts = await sending.stop();
  expect(attempts.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
  const sent = attempts.flatMap((attempt) => (attempt.isAccepted ? [attempt.push] : []));
  process.stdout.write(`restarts: ${sent.length} pushes, none refused\n`);
  const isHere = () =>
    crowd.devices.every((device) => sent.every((one) => countOf(device, one) > 0));
  await until(isHere, { timeoutMs: 40_000, what: 'every push at every device' });
  expect(crowd.devices.filter(({ arrivals }) => arrivals.length > sent.length)).toEqual([]);
});
