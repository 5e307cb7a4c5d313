import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { Collection } from 'mongodb';
import { fallbackBatchId } from '../../packages/core/src/ids.ts';
import { skipDelays } from '../../packages/webhooks/test/webhook-under-test.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { addReceiver } from '../support/api/webhook-receiver.ts';
import { startDeliveryWorker } from '../support/delivery-worker.ts';

import { type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { untilEnded } from '../support/faults/service-set.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import type { ServiceProcess } from '../support/operators/service-process.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import {
  type ProviderDevicePool,
  registerAndroids,
  registerIphones,
} from '../support/providers/provider-device-pool.ts';
import { registerDevice } from '../support/register-device.ts';
import { until } from '../support/until.ts';

/** Outcomes are saved twice before all of them are there. */
const IPHONES = 60;
/** A batch of these is settled without having been saved. */
const FEW = 3;
/** Outcomes after which a batch in progress is saved. */
const SAVED_AT_ONCE = 25;
/** All responses arrive together: those after the first of them while a save is in flight. */
const TOGETHER = { delayMs: 400 };
const EVENTS_MS = 40_000;
const LIMIT_MS = 150_000;

let fixture: ProviderFixture;
let tenant: TestTenant;
let mongo: TestMongo;
let pushes: Collection<{ _id: string }>;
let worker: ServiceProcess | undefined;
beforeAll(async () => {
  fixture = await openProviderFixture({ deliveryWorkers: 0 });
  tenant = await fixture.tenant({ fcm: 0 });
  mongo = await openMongo(tenant.dev);
  pushes = mongo.db.collection('pushes');
});
afterEach(() => worker?.stop());
afterAll(async () => {
  await mongo?.close();
  await fixture?.close();
});

async function startWorker(failpoints = ''): Promise<ServiceProcess> {
  worker = await startDeliveryWorker(fixture.stack, {
    WEBHOOK_HOSTS: '127.0.0.0/8',
    ...(failpoints !== '' && { FAILPOINTS: failpoints }),
  });
  await worker.untilReady();
  return worker;
}

/** Sends a push whose worker ends itself at a failpoint, and starts another one. */
async function killAt(failpoints: string, send: () => Promise<SentPush>): Promise<SentPush> {
  const killed = await startWorker(failpoints);
  const push = await send();
  await untilEnded(killed, failpoints);
  await startWorker();
  return push;
}

/** Counts the requests for a push to each address. */
async function countRequests(push: SentPush, { addresses }: ProviderDevicePool): Promise<number[]> {
  const received = await fixture.sandbox.received(push.id);
  return addresses.map((address) => received.filter(({ to }) => to === address).length);
}

const settled = ({ id }: SentPush) => ({ _id: id, 'work.state': 'closed' });
const sumOf = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0);

test.each<[failpoints: string, recipients: number, duplicates: number]>([
  ['send:kill#1', FEW, 0],
  ['sent:kill#1', FEW, FEW],
  ['save:kill#1', IPHONES, IPHONES],
  ['saved:kill#1', IPHONES, IPHONES - SAVED_AT_ONCE],
  ['settle:kill#1', IPHONES, SAVED_AT_ONCE - 1],
])(
  'at %s: each of %d iPhones is sent the push, at most %d of them once more',
  async (failpoints, recipients, duplicates) => {
    const pool = await registerIphones(tenant, recipients);
    await fixture.sandbox.setFaults('apns', TOGETHER);
    const push = await killAt(failpoints, () => sendPush(tenant, pool.tokens));
    await untilOutcomeCounts(fixture.store, push, { sent: recipients });
    // Saved outcomes count before the batch is settled.
    const isSettled = async () => (await pushes.countDocuments(settled(push))) === 1;
    await until(isSettled, { timeoutMs: 40_000, what: 'the settlement' });
    const requests = await countRequests(push, pool);
    expect(Math.min(...requests)).toBeGreaterThanOrEqual(1);
    expect(Math.max(...requests)).toBeLessThanOrEqual(2);
    expect(sumOf(requests) - recipients).toBeLessThanOrEqual(duplicates);
  },
  LIMIT_MS,
);

test.each<[failpoints: string, duplicates: number]>([
  ['fallback:kill#1', 0],
  ['fallback-inserted:kill#1', 0],
  ['fallback-recorded:kill#1', FEW],
])(
  'at %s: FCM gets the push for each device that is not connected, for at most %d of them once more',
  async (failpoints, duplicates) => {
    const pool = await registerAndroids(tenant, FEW);
    const push = await killAt(failpoints, () => sendPush(tenant, pool.tokens));
    const batches = mongo.db.collection<{ _id: string }>('batches');
    const closed = { _id: fallbackBatchId(push.id), 'work.state': 'closed' };
    const isClosed = async () => (await batches.countDocuments(closed)) === 1;
    await until(isClosed, { timeoutMs: 40_000, what: 'the end of the fallback' });
    await untilOutcomes(mongo, push, { sent: FEW });
    const requests = await countRequests(push, pool);
    expect(Math.min(...requests)).toBeGreaterThanOrEqual(1);
    expect(Math.max(...requests)).toBeLessThanOrEqual(2);
    expect(sumOf(requests) - FEW).toBeLessThanOrEqual(duplicates);
    expect(await batches.countDocuments({ push: push.id })).toBe(1);
  },
  LIMIT_MS,
);

/** Adds a webhook and a device to an app of its own, with a worker that reports the events of the device. */
async function openWebhook() {
  const owner = await createTestTenant(fixture.stack, { limit: null });
  const reporter = await startWorker();
  const webhook = await addReceiver(owner);
  const { token } = await registerDevice(owner.dev);
  const isIdle = async () => (await fixture.store.outbox.countPending(webhook.id, 1)) === 0;
  await until(isIdle, { timeoutMs: 30_000, what: 'no more events of devices' });
  await reporter.stop();
  return { owner, webhook, token };
}

test.each<[failpoints: string, times: number]>([
  ['webhook-send:kill#1', 1],
  ['webhook-sent:kill#1', 2],
  ['webhook-recorded:kill#1', 1],
])(
  'at %s: the webhook gets each event %d times at most',
  async (failpoints, times) => {
    const { owner, webhook, token } = await openWebhook();
    const push = await killAt(failpoints, async () => {
      const sent = await sendPush(owner, token);
      await untilOutcomes(mongo, sent, { inbox: 1 });
      await owner.api('DELETE', `/pushes/${sent.id}`);
      return sent;
    });
    // The claim would end half a minute after its worker.
    await skipDelays(mongo, webhook.id);
    const received = () =>
      webhook
        .events()
        .filter(({ data }) => data.push === push.id)
        .map(({ type }) => type);
    const all = ['push.finished', 'recipient.deleted'];
    const areReceived = () => all.every((type) => received().includes(type));
    await until(areReceived, { timeoutMs: EVENTS_MS, everyMs: 200, what: 'all events' });
    expect(new Set(received())).toEqual(new Set(all));
    expect(received().length).toBeLessThanOrEqual(times * all.length);
    expect([webhook.forged(), webhook.foreign()]).toEqual([0, 0]);
    await webhook.stop();
  },
  LIMIT_MS,
);
