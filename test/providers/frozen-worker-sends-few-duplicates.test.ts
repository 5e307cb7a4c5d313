import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { BATCH_LEASE_MS } from '../../packages/core/src/batch.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { type Sent, send } from '../support/end-to-end/pushes.ts';
import { readClaim, untilClaimed } from '../support/guarantees/batch-claim.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { findFirstWorker } from '../support/providers/first-worker.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { registerIphones } from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';

const IPHONES = 1_000;
/** Requests on a line to APNs at once: those that are on the wire can't be taken back. */
const WINDOW = 150;
/** Responses that a batch may have got without saving them. */
const UNSAVED = 25;
const SLOW = { delayMs: 1_000 };
const FROZEN_MS = 3 * BATCH_LEASE_MS;

let fixture: ProviderFixture;
let tenant: TestTenant;
let mongo: TestMongo;
beforeAll(async () => {
  fixture = await openProviderFixture({ deliveryWorkers: 2 });
  tenant = await fixture.tenant();
  mongo = await openMongo(fixture.stack.dev);
});
afterAll(async () => {
  await mongo?.close();
  await fixture?.close();
});

async function requests(): Promise<number> {
  return (await fixture.sandbox.counts()).byChannel.apns?.requests ?? 0;
}

/** Freezes the worker that has claimed a push's batch, until after another has taken it over. */
async function freezeClaimingWorker(push: Sent, first: string | undefined): Promise<void> {
  const { reply } = await untilClaimed(mongo, push);
  const index = reply === first ? 0 : 1;
  const service = 'delivery-worker';
  await whileFrozen(fixture.stack, [{ service, index }], async () => {
    const isTakenOver = async () => (await readClaim(mongo, push))?.reply !== reply;
    await Promise.all([until(isTakenOver, { timeoutMs: 60_000 }), sleep(FROZEN_MS)]);
  });
}

test('a worker that is frozen for longer than its lease repeats only the requests in flight', async () => {
  const { sandbox, store } = fixture;
  const first = await findFirstWorker(fixture, tenant, mongo);
  const { tokens } = await registerIphones(tenant, IPHONES);
  await sandbox.reset();
  await sandbox.setFaults('apns', SLOW);
  const push = await send(tenant, tokens);
  await until(async () => (await requests()) > WINDOW, { everyMs: 10 });
  await freezeClaimingWorker(push, first);
  await untilOutcomeCounts(store, push, { sent: IPHONES });
  const { duplicates, byChannel } = await sandbox.counts();
  expect(duplicates).toBeGreaterThan(0);
  expect(duplicates).toBeLessThanOrEqual(WINDOW + UNSAVED);
  expect((byChannel.apns?.accepted ?? 0) - duplicates).toBe(IPHONES);
});
