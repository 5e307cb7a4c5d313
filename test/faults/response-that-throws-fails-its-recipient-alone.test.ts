import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { startDeliveryWorker } from '../support/delivery-worker.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import type { ServiceProcess } from '../support/operators/service-process.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { registerIphones } from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';

const IPHONES = 3;
const EPOCH = new Date(0);
const LIMIT_MS = 180_000;

let fixture: ProviderFixture;
let tenant: TestTenant;
let mongo: TestMongo;
let worker: ServiceProcess | undefined;
beforeAll(async () => {
  fixture = await openProviderFixture({ deliveryWorkers: 0 });
  tenant = await fixture.tenant();
  mongo = await openMongo(tenant.dev);
});
afterAll(async () => {
  await worker?.stop();
  await mongo?.close();
  await fixture?.close();
});

test(
  "the response to one recipient throws each time; it fails, and the others' requests are not repeated",
  async () => {
    const { tokens, addresses } = await registerIphones(tenant, IPHONES);
    const [cause, ...others] = addresses;
    worker = await startDeliveryWorker(fixture.stack, { FAILPOINTS: `sent:throw@${tokens[0]}` });
    const push = await send(tenant, tokens);
    const pushes = mongo.db.collection<{ _id: string }>('pushes');
    const isDone = async () => {
      // Ends the lease of the batch now instead of seconds later; its job is over by the time that another can begin.
      const open = { _id: push.id, 'work.state': 'ready', 'work.claim': { $exists: true } };
      const { matchedCount } = await pushes.updateOne(open, { $set: { 'work.at': EPOCH } });
      if (matchedCount > 0) return false;
      return (await pushes.findOne({ _id: push.id, 'work.state': 'closed' })) !== null;
    };
    await until(isDone, { timeoutMs: LIMIT_MS, everyMs: 200, what: 'a settled batch' });
    await untilOutcomeCounts(fixture.store, push, { sent: IPHONES - 1, failed: 1 });
    const received = (await fixture.sandbox.received(push.id)).map(({ to }) => to);
    expect(received.filter((to) => to !== cause).sort()).toEqual(others.sort());
    expect(worker.isRunning()).toBe(true);
  },
  LIMIT_MS + 30_000,
);
