import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { type ReplicaSet, runOn, startReplicaSet } from '../support/faults/replica-set.ts';
import { readClaim, untilClaimed } from '../support/guarantees/batch-claim.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { findFirstWorker } from '../support/providers/first-worker.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { registerIphones } from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';

const AHEAD_SECONDS = 2;
const IPHONES = 1_000;
/** With 150 requests at a time the batch takes longer than its lease of 6 s. */
const SLOW = { delayMs: 1_500 };
const MIN_AHEAD_MS = 1_000;

let replicaSet: ReplicaSet;
let fixture: ProviderFixture;
let tenant: TestTenant;
let mongo: TestMongo;
beforeAll(async () => {
  replicaSet = await startReplicaSet({ clocks: [0, AHEAD_SECONDS, 0] });
  const env = { MONGODB_URI: replicaSet.uri };
  fixture = await openProviderFixture({ deliveryWorkers: 2, env });
  tenant = await fixture.tenant();
  mongo = await openMongo(fixture.stack.dev);
});
afterAll(async () => {
  await mongo?.close();
  await fixture?.close();
  await replicaSet?.remove();
});

test('a batch whose lease ends early is sent by another worker and settled once, and no recipient gets the push three times', async () => {
  const { sandbox, stack, store } = fixture;
  const first = await findFirstWorker(fixture, tenant, mongo);
  const { tokens } = await registerIphones(tenant, IPHONES);
  await sandbox.reset();
  await sandbox.setFaults('apns', SLOW);
  const push = await send(tenant, tokens);
  const { reply } = await untilClaimed(mongo, push);
  const isSending = async () => ((await sandbox.counts()).byChannel.apns?.requests ?? 0) > 0;
  await until(isSending, { everyMs: 10, what: 'a request' });
  await replicaSet.stepDown();
  const { localTime } = await runOn(await replicaSet.findPrimary(), { hello: 1 });
  expect((localTime as Date).getTime() - Date.now()).toBeGreaterThan(MIN_AHEAD_MS);
  const frozen = [{ service: 'delivery-worker', index: reply === first ? 0 : 1 }];
  const isTakenOver = async () => (await readClaim(mongo, push))?.reply !== reply;
  await whileFrozen(stack, frozen, () =>
    until(isTakenOver, { timeoutMs: 60_000, everyMs: 10, what: 'another worker' }),
  );
  await untilOutcomeCounts(store, push, { sent: IPHONES });
  const { duplicates, byChannel } = await sandbox.counts();
  process.stdout.write(`${duplicates} of ${IPHONES} recipients got it again\n`);
  expect((byChannel.apns?.accepted ?? 0) - duplicates).toBe(IPHONES);
  expect(duplicates).toBeLessThanOrEqual(IPHONES);
}, 240_000);
