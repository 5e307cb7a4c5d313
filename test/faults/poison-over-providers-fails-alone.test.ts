import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { BATCH_LEASE_MS } from '../../packages/core/src/batch.ts';
import { PROVIDER_CHANNELS } from '../../packages/core/src/channels.ts';
import { failureCode, isFailure } from '../../packages/core/src/outcomes.ts';
import { toBytes } from '../../packages/store/src/bytes.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { startDeliveryWorker } from '../support/delivery-worker.ts';
import { type SentPush, sendPush } from '../support/faults/pushes.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import type { ServiceProcess } from '../support/operators/service-process.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import {
  providerBatchesOf,
  providerBatchId,
  settingsFor,
  untilProviderCounts,
} from '../support/providers/provider-batches.ts';
import {
  type ProviderDevicePool,
  type ProviderWay,
  registerFor,
} from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';

const RECIPIENTS = 3;
/** A claim ends while its worker is blocked. */
const BLOCK = `block=${BATCH_LEASE_MS + 2_000}`;
/** Another worker has the time to take the batch, and its claim ends, too. */
const LONG_BLOCK = `block=${3 * BATCH_LEASE_MS}`;
/** Two dozen claims, each until its lease has ended, with room for a busy machine. */
const LIMIT_MS = 540_000;
const POISON_TEXT = 'indigestible';
const EPOCH = new Date(0);
/** One way for each queue of a provider: workers of two ways would take each other's batches. */
const ONE_FOR_EACH_QUEUE = ['apns', 'fallback', 'web-push'] as const;
const channelOf = (way: ProviderWay) => (way === 'fallback' ? 'fcm' : way);

/** A run with poison: its workers, what they do at the poison, and its result. */
interface Scenario {
  /** Number of workers of a way. */
  workers: number;
  /** Action of the failpoint at the response for the first recipient. */
  response: string;
  /** Action of the failpoint at the payload; without it no push has the poison as its payload. */
  payload?: string;
  /** True if the first recipient fails. */
  recipientFails: boolean;
}

/** The pushes of one way. */
interface Poisoned {
  way: ProviderWay;
  pool: ProviderDevicePool;
  /** One of its recipients is the poison. */
  recipient: SentPush;
  /** Its payload is the poison. */
  payload: SentPush | undefined;
  /** To all but the poison. */
  neighbour: SentPush;
}

let fixture: ProviderFixture;
let tenant: TestTenant;
let mongo: TestMongo;
let others: ServiceProcess[] = [];
beforeAll(async () => {
  fixture = await openProviderFixture({ deliveryWorkers: 0 });
  tenant = await fixture.tenant({ fcm: 0 });
  mongo = await openMongo(tenant.dev);
});
afterEach(async () => {
  await Promise.all(others.map((worker) => worker.stop()));
  others = [];
});
afterAll(async () => {
  await mongo?.close();
  await fixture?.close();
});

async function sendAll(way: ProviderWay, scenario: Scenario): Promise<Poisoned> {
  const pool = await registerFor(way, tenant, fixture.sandbox, RECIPIENTS);
  const first = pool.tokens.slice(0, 1);
  const payload =
    scenario.payload === undefined
      ? undefined
      : await sendPush(tenant, first, { data: { text: POISON_TEXT } });
  const recipient = await sendPush(tenant, pool.tokens);
  const neighbour = await sendPush(tenant, pool.tokens.slice(1));
  return { way, pool, recipient, payload, neighbour };
}

/** Starts a worker that delivers in one way, and acts at the poison. */
function startPoisoned(
  { way, pool }: Poisoned,
  { response, payload }: Scenario,
): Promise<ServiceProcess> {
  const atPayload = payload === undefined ? [] : [`deliver:${payload}@${POISON_TEXT}`];
  return startDeliveryWorker(fixture.stack, {
    QUEUES: `deliver-${channelOf(way)}`,
    FAILPOINTS: [`sent:${response}@${pool.tokens[0]}`, ...atPayload].join(),
    ...settingsFor(way, fixture.stack, pool),
  });
}

/** Ends the leases of a killed worker now instead of seconds later. */
async function endLeases(way: ProviderWay): Promise<void> {
  const claimed = { 'work.state': 'ready', 'work.claim': { $exists: true } };
  const held = { 'work.channel': channelOf(way), ...claimed };
  for (const collection of ['pushes', 'batches'])
    await mongo.db.collection(collection).updateMany(held, { $set: { 'work.at': EPOCH } });
}

/** Checks whether the provider's batches of all pushes are closed. */
async function isDone({ way, recipient, payload, neighbour }: Poisoned): Promise<boolean> {
  const pushes = [recipient, payload, neighbour].filter((push) => push !== undefined);
  const ids = pushes.map((push) => providerBatchId(way, push));
  const closed = { _id: { $in: ids }, 'work.state': 'closed' as const };
  return (await providerBatchesOf(way, mongo).countDocuments(closed)) === ids.length;
}

/** Runs workers, and others in the place of those that end, until all is done. Returns how many have ended. */
async function runUntilDone(poisoned: Poisoned, scenario: Scenario): Promise<number> {
  let ends = 0;
  const start = () => startPoisoned(poisoned, scenario);
  const workers = await Promise.all(Array.from({ length: scenario.workers }, start));
  const step = async () => {
    for (const [at, worker] of workers.entries()) {
      if (worker.isRunning()) continue;
      ends += 1;
      await endLeases(poisoned.way);
      workers[at] = await start();
    }
    return isDone(poisoned);
  };
  const what = `the ends of ${poisoned.way}`;
  const stopAll = async () => void (await Promise.all(workers.map((worker) => worker.stop())));
  await until(step, { timeoutMs: LIMIT_MS, everyMs: 200, what }).finally(stopAll);
  return ends;
}

/** Expects that the provider has got a push for these addresses, and how many of its recipients have failed. */
async function expectEnd(
  { way }: Poisoned,
  push: SentPush,
  addresses: readonly string[],
  failed: number,
): Promise<void> {
  const received = new Set((await fixture.sandbox.received(push.id)).map(({ to }) => to));
  expect(addresses.filter((address) => !received.has(address))).toEqual([]);
  const counts = { sent: addresses.length, failed };
  await untilProviderCounts(way, tenant, fixture.store, push, counts);
}

/** Runs pushes with poison over all three channels. Returns how many workers of each have ended. */
async function deliverAll(scenario: Scenario): Promise<number[]> {
  others.push(await startDeliveryWorker(fixture.stack, { QUEUES: 'send,deliver-mqtt,finish' }));
  const all = await Promise.all(ONE_FOR_EACH_QUEUE.map((way) => sendAll(way, scenario)));
  const ends = await Promise.all(all.map((poisoned) => runUntilDone(poisoned, scenario)));
  process.stdout.write(`${JSON.stringify(scenario)}, ends: ${ends.join(', ')}\n`);
  const failed = scenario.recipientFails ? 1 : 0;
  for (const poisoned of all) {
    const { pool, recipient, payload, neighbour } = poisoned;
    await expectEnd(poisoned, recipient, pool.addresses.slice(failed), failed);
    if (payload !== undefined) await expectEnd(poisoned, payload, [], 1);
    await expectEnd(poisoned, neighbour, pool.addresses.slice(1), 0);
  }
  return ends;
}

function slowTest(name: string, run: () => Promise<void>): void {
  test(`over APNs, FCM and Web Push, ${name}`, run, LIMIT_MS + 60_000);
}

slowTest('a response or a payload that ends its worker each time fails alone', async () => {
  const ends = await deliverAll({
    workers: 1,
    response: 'kill',
    payload: 'kill',
    recipientFails: true,
  });
  expect(Math.min(...ends)).toBeGreaterThan(10);
});

// Another worker takes the batch while the first is blocked, which may then record nothing.
slowTest('a response that blocks each of two workers fails alone', async () => {
  const ends = await deliverAll({ workers: 2, response: LONG_BLOCK, recipientFails: true });
  expect(ends).toEqual([0, 0, 0]);
});

// A claim that nobody else has taken still holds after the block, so the response is recorded.
slowTest('a response that blocks the only worker counts; such a payload fails', async () => {
  const blocks = { response: BLOCK, payload: BLOCK };
  const ends = await deliverAll({ workers: 1, ...blocks, recipientFails: false });
  expect(ends).toEqual([0, 0, 0]);
});

test.each<ProviderWay>([...PROVIDER_CHANNELS, 'fallback'])(
  "over %s, the response to one recipient throws each time; it fails, and the others' requests are not repeated",
  async (way) => {
    const pool = await registerFor(way, tenant, fixture.sandbox, RECIPIENTS);
    const [cause, ...sound] = pool.addresses;
    const worker = await startDeliveryWorker(fixture.stack, {
      FAILPOINTS: `sent:throw@${pool.tokens[0]}`,
      ...settingsFor(way, fixture.stack, pool),
    });
    others.push(worker);
    const push = await sendPush(tenant, pool.tokens);
    const batches = providerBatchesOf(way, mongo);
    const _id = providerBatchId(way, push);
    const findClosed = async () => {
      // Ends the lease of the batch now instead of seconds later; its job is over by the time that another can begin.
      const open = { _id, 'work.state': 'ready' as const, 'work.claim': { $exists: true } };
      const { matchedCount } = await batches.updateOne(open, { $set: { 'work.at': EPOCH } });
      if (matchedCount > 0) return undefined;
      return batches.findOne({ _id, 'work.state': 'closed' });
    };
    const { work } = await until(findClosed, {
      ...{ timeoutMs: LIMIT_MS, everyMs: 200, what: 'a settled batch' },
    });
    const counts = { sent: RECIPIENTS - 1, failed: 1 };
    expect(work?.counts).toEqual(counts);
    const failures = [...toBytes(work?.outcomes)].filter(isFailure);
    expect(failures).toEqual([failureCode('worker-failed')]);
    await untilProviderCounts(way, tenant, fixture.store, push, counts);
    const received = (await fixture.sandbox.received(push.id)).map(({ to }) => to);
    expect(received.filter((to) => to !== cause).sort()).toEqual(sound.sort());
    expect(worker.isRunning()).toBe(true);
  },
  LIMIT_MS + 60_000,
);
