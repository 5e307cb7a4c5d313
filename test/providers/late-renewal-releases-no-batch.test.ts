import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { startDeliveryWorker } from '../support/delivery-worker.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import type { ServiceProcess } from '../support/operators/service-process.ts';
import { registerIphone } from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { until } from '../support/until.ts';

/** The lease of 6 s has less than its margin left then, and MongoDB still has the claim. */
const BLOCKED_MS = 5_500;
/** Of each kind, all in progress when the worker is blocked. */
const PUSHES = 50;

let fixture: ProviderFixture;
let mongo: TestMongo;
let worker: ServiceProcess;
beforeAll(async () => {
  fixture = await openProviderFixture({ deliveryWorkers: 0 });
  mongo = await openMongo(fixture.stack.dev);
  const block = `claim:block=${BLOCKED_MS}`;
  const FAILPOINTS = [1, PUSHES + 1].map((nth) => `${block}#${nth}`).join(',');
  worker = await startDeliveryWorker(fixture.stack, { FAILPOINTS });
  await worker.untilReady();
}, 120_000);
afterAll(async () => {
  await worker?.stop();
  await mongo?.close();
  await fixture?.close();
});

/** Waits until the batch of a push is settled, and returns how often it was claimed. */
function untilSettled(push: { id: string }): Promise<number> {
  const pushes = mongo.db.collection<PushDocument>('pushes');
  const readTries = async () => {
    const found = await pushes.findOne({ _id: push.id, 'work.state': 'closed' });
    return found?.work?.tries;
  };
  return until(readTries, { timeoutMs: 60_000, what: 'a settled batch' });
}

test('a worker that ran too late to renew its leases keeps its claims, and delivers the batches', async () => {
  const tenant = await fixture.tenant();
  const [iphone, offline] = [await registerIphone(tenant.dev), await newMqttDevice(tenant.dev)];
  for (const { token } of [iphone, offline]) {
    const pushes = await Promise.all(Array.from({ length: PUSHES }, () => send(tenant, token)));
    expect(await Promise.all(pushes.map(untilSettled))).toEqual(Array(PUSHES).fill(1));
  }
  expect((await fixture.sandbox.counts()).duplicates).toBe(0);
}, 180_000);
