import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { BATCH_LEASE_MS } from '../../packages/core/src/batch.ts';
import { newDeviceToken } from '../../packages/core/src/ids.ts';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { SUSPECTED_AFTER } from '../../packages/store/src/lapsed-claims.ts';
import { insertDevices } from '../support/faults/device-pool.ts';
import { pushStatusOf, type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { openServiceSet, type ServiceSet } from '../support/faults/service-set.ts';
import type { TestMongo } from '../support/mongo.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import type { ServiceProcess } from '../support/operators/service-process.ts';

const RECIPIENTS = 3;
/** Pushes to one device each, half of them sent before the one that blocks. */
const NEIGHBOURS = 200;
const SENT_AT_ONCE = 20;
/** A claim ends while its worker is blocked; if there is another worker, it takes the batch. */
const BLOCKED_MS = BATCH_LEASE_MS + 2_000;
/** Longer than each timeout of the connections to MongoDB and Redis. */
const BLOCKED_LONG_MS = 40_000;
/** A dozen claims, each until its lease has ended, with room for a busy machine. */
const FAILS_WITHIN_MS = 360_000;
const LIMIT_MS = FAILS_WITHIN_MS + 120_000;
const POLL_OPTIONS = { timeoutMs: FAILS_WITHIN_MS, everyMs: 500 };

const POISON = newDeviceToken();
const POISON_TEXT = 'indigestible';

let mongo: TestMongo;
let set: ServiceSet;
let workers: ServiceProcess[] = [];
beforeEach(async () => {
  set = await openServiceSet();
  mongo = set.mongo;
  workers = [];
  await set.find('delivery-worker').stop();
});
afterEach(() => set?.stop());

async function startWorkers(count: number, failpoints: string): Promise<void> {
  while (workers.length < count)
    workers.push(await set.start('delivery-worker', { FAILPOINTS: failpoints }));
}

async function sendToNeighbour(token: string, count: number): Promise<SentPush[]> {
  const pushes: SentPush[] = [];
  while (pushes.length < count) {
    const some = Array.from({ length: SENT_AT_ONCE }, () => sendPush(set, token));
    pushes.push(...(await Promise.all(some)));
  }
  return pushes;
}

const pushesIn = ({ db }: TestMongo) => db.collection<PushDocument>('pushes');

/** Makes a push one whose last claims have lapsed. */
async function setLapsed({ id }: SentPush, lapsed: number): Promise<void> {
  const changed = await pushesIn(mongo).updateOne({ _id: id }, { $set: { 'work.lapsed': lapsed } });
  expect(changed.matchedCount).toBe(1);
}

async function countClaims({ id }: SentPush): Promise<number> {
  return (await pushesIn(mongo).findOne({ _id: id }))?.work?.tries ?? 0;
}

describe.each([1, 2])('%i workers that are blocked for longer than a lease each time', (count) => {
  test(
    'the recipient fails alone; all others get their row, also those of pushes claimed with it, and no worker ends',
    async () => {
      const tokens = [newDeviceToken(), POISON, newDeviceToken()].sort();
      const neighbour = newDeviceToken();
      await insertDevices(set, mongo, [...tokens, neighbour]);
      // Without a worker all of them wait, and the first worker takes them together.
      const sent = await sendToNeighbour(neighbour, NEIGHBOURS / 2);
      const push = await sendPush(set, tokens);
      sent.push(...(await sendToNeighbour(neighbour, NEIGHBOURS / 2)));
      const neighbours = sent.map(({ id }) => id);
      await startWorkers(count, `rows:block=${BLOCKED_MS}@${POISON}`);

      await untilOutcomes(mongo, push, { inbox: RECIPIENTS - 1, failed: 1 }, POLL_OPTIONS);
      for (const id of neighbours) await untilOutcomes(mongo, { id }, { inbox: 1 }, POLL_OPTIONS);
      const inbox = mongo.db.collection('inbox');
      expect(await inbox.countDocuments({ push: push.id })).toBe(RECIPIENTS - 1);
      expect(await inbox.countDocuments({ push: { $in: neighbours } })).toBe(NEIGHBOURS);
      const wasHeld = { _id: { $in: neighbours }, 'work.lapsed': { $gt: 0 } };
      expect(await pushesIn(mongo).countDocuments(wasHeld)).toBeGreaterThan(0);
      for (const worker of workers) expect(worker.isRunning()).toBe(true);
    },
    LIMIT_MS,
  );
});

test(
  'a recipient that blocks two workers for 40 s each time fails alone; connected devices get their pushes, and no worker ends',
  async () => {
    const device = await newMqttDevice(set.dev);
    await device.connect();
    const offline = [newDeviceToken(), newDeviceToken()];
    await insertDevices(set, mongo, [POISON, ...offline]);
    const neighbours = await sendToNeighbour(device.token, SENT_AT_ONCE);
    const push = await sendPush(set, [POISON, device.token, ...offline]);
    // After the first block it is suspected: four slower claims before would show nothing else.
    await setLapsed(push, SUSPECTED_AFTER - 1);
    await startWorkers(2, `rows:block=${BLOCKED_LONG_MS}@${POISON}`);
    neighbours.push(...(await sendToNeighbour(device.token, SENT_AT_ONCE)));

    const expected = { delivered: 1, inbox: offline.length, failed: 1 };
    await untilOutcomes(mongo, push, expected, POLL_OPTIONS);
    for (const one of neighbours) await untilOutcomes(mongo, one, { delivered: 1 }, POLL_OPTIONS);
    const arrived = new Set(device.arrivals.map(({ payload }) => payload));
    expect(arrived).toEqual(new Set([push, ...neighbours].map(({ payload }) => payload)));
    const status = await set.store.deliveryStatus.statusOfRecipient(push.id, POISON);
    expect(status?.reason).toBe('worker-failed');
    // One block of the whole batch, six of the recipient, and the claim that fails it.
    expect(await countClaims(push)).toBeGreaterThanOrEqual(8);
    for (const worker of workers) expect(worker.isRunning()).toBe(true);
    await device.disconnect();
  },
  LIMIT_MS,
);

test(
  'a payload that blocks two workers each time fails for all its recipients; they get all other pushes meanwhile',
  async () => {
    const tokens = Array.from({ length: RECIPIENTS + 1 }, newDeviceToken);
    await insertDevices(set, mongo, tokens);
    const poison = await sendPush(set, tokens, { data: { text: POISON_TEXT } });
    await setLapsed(poison, SUSPECTED_AFTER);
    await startWorkers(2, `deliver:block=${BLOCKED_MS}@${POISON_TEXT}`);

    const push = await sendPush(set, tokens);
    const neighbours = await sendToNeighbour(tokens[0] ?? '', SENT_AT_ONCE);
    await untilOutcomes(mongo, push, { inbox: tokens.length }, POLL_OPTIONS);
    for (const one of neighbours) await untilOutcomes(mongo, one, { inbox: 1 }, POLL_OPTIONS);
    expect((await pushStatusOf(mongo, poison)).outcomes).toHaveProperty('pending');

    await untilOutcomes(mongo, poison, { failed: tokens.length }, POLL_OPTIONS);
    const inbox = mongo.db.collection('inbox');
    expect(await inbox.countDocuments({ push: poison.id })).toBe(0);
    for (const token of tokens) {
      const status = await set.store.deliveryStatus.statusOfRecipient(poison.id, token);
      expect(status?.reason).toBe('worker-failed');
    }
    // Six blocks of each of three recipients; then the fourth fails with the third.
    expect(await countClaims(poison)).toBeGreaterThanOrEqual(19);
    for (const worker of workers) expect(worker.isRunning()).toBe(true);
  },
  LIMIT_MS,
);
