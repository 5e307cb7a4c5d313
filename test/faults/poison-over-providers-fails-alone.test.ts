import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { BATCH_LEASE_MS } from '../../packages/core/src/batch.ts';
import { PROVIDER_CHANNELS, type ProviderChannelName } from '../../packages/core/src/channels.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { startDeliveryWorker } from '../support/delivery-worker.ts';
import { type SentPush, sendPush } from '../support/faults/pushes.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import type { ServiceProcess } from '../support/operators/service-process.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import {
  providerBatchesOf,
  providerBatchId,
  registerFor,
  settingsFor,
  untilProviderCounts,
} from '../support/providers/provider-batches.ts';
import type { ProviderDevicePool } from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';

const RECIPIENTS = 3;
/** A claim ends while its worker is blocked. */
const BLOCKED_MS = BATCH_LEASE_MS + 2_000;
/** Two dozen claims, each until its lease has ended, with room for a busy machine. */
const LIMIT_MS = 540_000;
const POISON_TEXT = 'indigestible';
const EPOCH = new Date(0);

/** The pushes of one channel. */
interface Poisoned {
  channel: ProviderChannelName;
  pool: ProviderDevicePool;
  /** One of its recipients is the poison. */
  recipient: SentPush;
  /** Its payload ends the workers. */
  payload: SentPush;
  /** To all but the poison. */
  neighbour: SentPush;
}

let fixture: ProviderFixture;
let tenant: TestTenant;
let mongo: TestMongo;
let sound: ServiceProcess | undefined;
beforeAll(async () => {
  fixture = await openProviderFixture({ deliveryWorkers: 0 });
  tenant = await fixture.tenant({ fcmFallbackSeconds: 0 });
  mongo = await openMongo(tenant.dev);
  sound = await startDeliveryWorker(fixture.stack, { QUEUES: 'send,deliver-mqtt,finish' });
});
afterAll(async () => {
  await sound?.stop();
  await mongo?.close();
  await fixture?.close();
});

async function sendAll(channel: ProviderChannelName): Promise<Poisoned> {
  const pool = await registerFor(channel, tenant, fixture.sandbox, RECIPIENTS);
  const payload = await sendPush(tenant, pool.tokens.slice(0, 1), { data: { text: POISON_TEXT } });
  const recipient = await sendPush(tenant, pool.tokens);
  const neighbour = await sendPush(tenant, pool.tokens.slice(1));
  return { channel, pool, recipient, payload, neighbour };
}

/** Starts a worker that delivers over one channel, and acts at the poison. */
function startPoisoned({ channel, pool }: Poisoned, action: string): Promise<ServiceProcess> {
  return startDeliveryWorker(fixture.stack, {
    QUEUES: `deliver-${channel}`,
    FAILPOINTS: `sent:${action}@${pool.tokens[0]},deliver:${action}@${POISON_TEXT}`,
    ...settingsFor(channel, fixture.stack, pool),
  });
}

/** Ends the leases of a killed worker now instead of seconds later. */
async function endLeases(channel: ProviderChannelName): Promise<void> {
  const held = { 'work.channel': channel, 'work.state': 'ready', 'work.claim': { $exists: true } };
  for (const collection of ['pushes', 'batches'])
    await mongo.db.collection(collection).updateMany(held, { $set: { 'work.at': EPOCH } });
}

/** Checks whether the channel's batches of all pushes are closed; FCM has those of a fallback. */
async function isDone({ channel, recipient, payload, neighbour }: Poisoned): Promise<boolean> {
  const ids = [recipient, payload, neighbour].map((push) => providerBatchId(channel, push));
  const closed = { _id: { $in: ids }, 'work.state': 'closed' as const };
  return (await providerBatchesOf(channel, mongo).countDocuments(closed)) === ids.length;
}

/** Runs a worker, and another in its place when it ends, until all is done. Returns how many have ended. */
async function runUntilDone(poisoned: Poisoned, action: string): Promise<number> {
  let ends = 0;
  let worker = await startPoisoned(poisoned, action);
  const step = async () => {
    if (!worker.isRunning()) {
      ends += 1;
      await endLeases(poisoned.channel);
      worker = await startPoisoned(poisoned, action);
    }
    return isDone(poisoned);
  };
  const what = `the ends over ${poisoned.channel}`;
  await until(step, { timeoutMs: LIMIT_MS, everyMs: 200, what }).finally(() => worker.stop());
  return ends;
}

/** Expects that the provider has got a push for these addresses, and how many of its recipients have failed. */
async function expectEnd(
  { channel }: Poisoned,
  push: SentPush,
  addresses: readonly string[],
  failed: number,
): Promise<void> {
  const received = new Set((await fixture.sandbox.received(push.id)).map(({ to }) => to));
  expect(addresses.filter((address) => !received.has(address))).toEqual([]);
  const counts = { sent: addresses.length, failed };
  await untilProviderCounts(channel, tenant, fixture.store, push, counts);
}

test.each([
  ['ends its worker', 'kill'],
  ['blocks its worker for longer than a lease', `block=${BLOCKED_MS}`],
])(
  'over APNs, FCM and Web Push, a response or a payload that %s each time fails alone',
  async (_, action) => {
    const all = await Promise.all(PROVIDER_CHANNELS.map(sendAll));
    const ends = await Promise.all(all.map((poisoned) => runUntilDone(poisoned, action)));
    process.stdout.write(`ends by ${action}: ${ends.join(', ')}\n`);
    for (const poisoned of all) {
      const others = poisoned.pool.addresses.slice(1);
      await expectEnd(poisoned, poisoned.recipient, others, 1);
      await expectEnd(poisoned, poisoned.payload, [], 1);
      await expectEnd(poisoned, poisoned.neighbour, others, 0);
    }
    if (action === 'kill') expect(Math.min(...ends)).toBeGreaterThan(10);
    else expect(ends).toEqual([0, 0, 0]);
  },
  LIMIT_MS + 60_000,
);
