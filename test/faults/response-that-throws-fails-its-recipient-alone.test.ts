import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { PROVIDER_CHANNELS } from '../../packages/core/src/channels.ts';
import { failureCode, isFailure } from '../../packages/core/src/outcomes.ts';
import { toBytes } from '../../packages/store/src/bytes.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { startDeliveryWorker } from '../support/delivery-worker.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import type { ServiceProcess } from '../support/operators/service-process.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import {
  providerBatchesOf,
  providerBatchId,
  settingsFor,
  untilProviderCounts,
} from '../support/providers/provider-batches.ts';
import { registerFor } from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';

const RECIPIENTS = 3;
const EPOCH = new Date(0);
const LIMIT_MS = 180_000;

let fixture: ProviderFixture;
let tenant: TestTenant;
let mongo: TestMongo;
let worker: ServiceProcess | undefined;
beforeAll(async () => {
  fixture = await openProviderFixture({ deliveryWorkers: 0 });
  tenant = await fixture.tenant({ fcmFallbackSeconds: 0 });
  mongo = await openMongo(tenant.dev);
});
afterEach(() => worker?.stop());
afterAll(async () => {
  await mongo?.close();
  await fixture?.close();
});

test.each(PROVIDER_CHANNELS)(
  "over %s, the response to one recipient throws each time; it fails, and the others' requests are not repeated",
  async (channel) => {
    const pool = await registerFor(channel, tenant, fixture.sandbox, RECIPIENTS);
    const [cause, ...others] = pool.addresses;
    worker = await startDeliveryWorker(fixture.stack, {
      FAILPOINTS: `sent:throw@${pool.tokens[0]}`,
      ...settingsFor(channel, fixture.stack, pool),
    });
    const push = await send(tenant, pool.tokens);
    const batches = providerBatchesOf(channel, mongo);
    const _id = providerBatchId(channel, push);
    const findClosed = async () => {
      // Ends the lease of the batch now instead of seconds later; its job is over by the time that another can begin.
      const open = { _id, 'work.state': 'ready' as const, 'work.claim': { $exists: true } };
      const { matchedCount } = await batches.updateOne(open, { $set: { 'work.at': EPOCH } });
      if (matchedCount > 0) return undefined;
      return batches.findOne({ _id, 'work.state': 'closed' });
    };
    const what = 'a settled batch';
    const { work } = await until(findClosed, { timeoutMs: LIMIT_MS, everyMs: 200, what });
    const counts = { sent: RECIPIENTS - 1, failed: 1 };
    expect(work?.counts).toEqual(counts);
    const failures = [...toBytes(work?.outcomes)].filter(isFailure);
    expect(failures).toEqual([failureCode('worker-failed')]);
    await untilProviderCounts(channel, tenant, fixture.store, push, counts);
    const received = (await fixture.sandbox.received(push.id)).map(({ to }) => to);
    expect(received.filter((to) => to !== cause).sort()).toEqual(others.sort());
    expect(worker.isRunning()).toBe(true);
  },
  LIMIT_MS + 30_000,
);
