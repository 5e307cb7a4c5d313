import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { QueueName } from '../../packages/queue/src/jobs.ts';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { insertFailedPushes } from '../../packages/store/test/failed-pushes.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { addReceiver } from '../support/api/webhook-receiver.ts';
import { createDevicePool, type DevicePool } from '../support/faults/device-pool.ts';
import { countArrivals } from '../support/faults/expect-complete.ts';
import { type JobQueues, openJobQueues } from '../support/faults/job-queues.ts';
import { type SentPush, sendPush } from '../support/faults/pushes.ts';
import { subscribePool } from '../support/faults/subscribe-pool.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { providerBatchId } from '../support/providers/provider-batches.ts';
import { registerFor } from '../support/providers/provider-device-pool.ts';
import { registerDevice } from '../support/register-device.ts';
import { until } from '../support/until.ts';

const REAL = 10;
/** Three batches, one with devices that are connected. */
const POOL_SIZE = { registered: 2_500, real: REAL };
const BATCHES = 3;
const OF_PROVIDER = 3;
const AT_ONCE = 5;
/** Two pages. */
const REDRIVEN = 60;
const TOPIC = 'crowd';

let fixture: ProviderFixture;
let tenant: TestTenant;
let mongo: TestMongo;
let pool: DevicePool;
let jobs: JobQueues;
beforeAll(async () => {
  fixture = await openProviderFixture({ deliveryWorkers: 2, schedulers: 2 });
  tenant = await fixture.tenant();
  await fixture.store.apps.updateSettings(tenant.app, { fcm: 0 });
  mongo = await openMongo(tenant.dev);
  const stack = { home: fixture.stack.home, dev: tenant.dev };
  pool = await createDevicePool(stack, mongo, POOL_SIZE);
  await subscribePool({ stack, mongo, pool }, TOPIC);
  jobs = await openJobQueues({ url: tenant.dev.redis });
});
beforeEach(() => {
  for (const { arrivals } of pool.devices) arrivals.length = 0;
});
afterAll(async () => {
  await jobs?.close();
  await Promise.all(pool?.devices.map((device) => device.disconnect()) ?? []);
  await mongo?.close();
  await fixture?.close();
});

/**
 * Causes a job while its queue is paused, adds it five times more and lets all of them run at once. When they are done and
 * `expectEnds` has passed, runs it twice, one after the other, and `expectEnds` again.
 */
async function runAgain<T>(
  queue: QueueName,
  cause: () => Promise<T>,
  dataOf: (caused: T) => Promise<object[]> | object[],
  expectEnds: (caused: T) => Promise<void>,
): Promise<void> {
  await jobs.pause(queue);
  const caused = await cause();
  const data = await dataOf(caused);
  for (const one of data) await jobs.add(queue, one, { times: AT_ONCE });
  await jobs.resume(queue);
  await expectEnds(caused);
  for (let time = 0; time < 2; time += 1) {
    for (const one of data) await jobs.add(queue, one);
    await jobs.untilDone(queue);
  }
  await expectEnds(caused);
}

const listBatches = ({ id }: SentPush) =>
  mongo.db.collection<{ _id: string; push: string }>('batches').find({ push: id }).toArray();

/** Each recipient is delivered or has one row in the inbox. */
async function expectAllReached(push: SentPush): Promise<void> {
  const inbox = POOL_SIZE.registered - REAL;
  await untilOutcomeCounts(fixture.store, push, { delivered: REAL, inbox });
  expect(await mongo.db.collection('inbox').countDocuments({ push: push.id })).toBe(inbox);
  expect(await listBatches(push)).toHaveLength(BATCHES);
  expect(pool.devices.map((device) => countArrivals(device, push))).toEqual(Array(REAL).fill(1));
}

test('send: a single push', async () => {
  const [device] = pool.devices;
  await runAgain(
    'send',
    () => sendPush(tenant, device?.token ?? ''),
    ({ id }) => [
      { app: tenant.app, pushes: [id] },
      { app: tenant.app, pushes: [id, id] },
    ],
    async (push) => {
      await untilOutcomeCounts(fixture.store, push, { delivered: 1 });
      expect(device?.arrivals.map(({ payload }) => payload)).toEqual([push.payload]);
    },
  );
});

test('send: a step of a fan-out, of tokens and of a topic', async () => {
  for (const to of [pool.tokens, `/topics/${TOPIC}`])
    await runAgain(
      'send',
      () => sendPush(tenant, to),
      ({ id }) => [{ fanOut: id }],
      expectAllReached,
    );
});

test('deliver-mqtt: a batch', async () => {
  await runAgain(
    'deliver-mqtt',
    async () => {
      const push = await sendPush(tenant, pool.tokens);
      const areReleased = async () =>
        (await mongo.db
          .collection('batches')
          .countDocuments({ push: push.id, 'work.state': 'ready' })) === BATCHES;
      await until(areReleased, { what: 'released batches' });
      return push;
    },
    async (push) => (await listBatches(push)).map(({ _id }) => ({ work: _id })),
    expectAllReached,
  );
});

test('deliver-apns, deliver-fcm, deliver-web-push: a batch', async () => {
  const { sandbox } = fixture;
  for (const way of ['apns', 'fcm', 'fallback', 'web-push'] as const) {
    const { tokens, addresses } = await registerFor(way, tenant, sandbox, OF_PROVIDER);
    const channel = way === 'fallback' ? 'fcm' : way;
    const batchOf = (push: SentPush) => providerBatchId(way, push);
    await runAgain(
      `deliver-${channel}`,
      async () => {
        const push = await sendPush(tenant, tokens);
        const isFallbackDue = async () =>
          way !== 'fallback' || (await listBatches(push)).some(({ _id }) => _id === batchOf(push));
        await until(isFallbackDue, { what: 'a batch of the fallback' });
        return push;
      },
      (push) => [{ work: batchOf(push) }],
      async (push) => {
        const listReceived = async () => (await sandbox.received(push.id)).map(({ to }) => to);
        await until(async () => (await listReceived()).length >= OF_PROVIDER);
        await jobs.untilDone(`deliver-${channel}`);
        expect((await listReceived()).sort()).toEqual(addresses.toSorted());
        // The outcome of a fallback counts when the push ends.
        if (way !== 'fallback')
          await untilOutcomeCounts(fixture.store, push, { sent: OF_PROVIDER });
      },
    );
  }
});

test('finish: a check that ends a push', async () => {
  const [device] = pool.devices;
  const offline = pool.tokens.at(-1) ?? '';
  const push = await sendPush(tenant, [device?.token ?? '', offline]);
  await untilOutcomeCounts(fixture.store, push, { delivered: 1, inbox: 1 });
  await runAgain(
    'finish',
    () => tenant.api('DELETE', `/pushes/${push.id}`),
    () => [{ pushes: [push.id] }, { pushes: [push.id, push.id] }],
    async () => {
      await untilOutcomeCounts(fixture.store, push, { delivered: 1, deleted: 1 });
      // The end counts the outcomes before it removes the rows.
      const countRows = () => mongo.db.collection('inbox').countDocuments({ push: push.id });
      await until(async () => (await countRows()) === 0, { what: 'no inbox row' });
    },
  );
});

test('presence: when devices and keys were last seen', async () => {
  const { token } = await registerDevice(tenant.dev);
  const at = Date.now() + 5_000;
  const second = new Date(Math.floor(at / 1_000) * 1_000);
  const readTimes = async () => [
    (await fixture.store.devices.find(token))?.lastActiveAt,
    (await fixture.store.keys.list(tenant.app))[0]?.lastUsedAt,
  ];
  await runAgain(
    'presence',
    async () => undefined,
    () => [
      { events: [[token, at]], keys: [[tenant.keyId, at + 60_000]] },
      // Of an earlier time.
      { events: [[token, at - 60_000]], keys: [] },
    ],
    async () => {
      await jobs.untilDone('presence');
      expect(await readTimes()).toEqual([second, new Date(second.getTime() + 60_000)]);
    },
  );
});

test('maintenance: a check for due pushes', async () => {
  const [device] = pool.devices;
  await runAgain(
    'maintenance',
    () => sendPush(tenant, device?.token ?? '', { schedule: Math.ceil(Date.now() / 1_000) + 2 }),
    () => [{ task: 'reconcile' }],
    async (push) => {
      await untilOutcomeCounts(fixture.store, push, { delivered: 1 });
      expect(device?.arrivals.map(({ payload }) => payload)).toEqual([push.payload]);
      const { json } = await tenant.api('GET', '/topics');
      expect(json).toEqual({ topics: [{ name: TOPIC, subscribers: POOL_SIZE.registered }] });
    },
  );
});

test('webhook: a report', async () => {
  const receiver = await addReceiver(tenant);
  const listEvents = ({ id }: SentPush) =>
    receiver
      .events()
      .filter(({ data }) => data.push === id)
      .map(({ type }) => type)
      .sort();
  try {
    const [device] = pool.devices;
    await runAgain(
      'webhook',
      async () => {
        const push = await sendPush(tenant, device?.token ?? '');
        await untilOutcomeCounts(fixture.store, push, { delivered: 1 });
        return push;
      },
      () => [{ webhook: receiver.id }],
      async (push) => {
        await until(() => listEvents(push).length >= 2, { timeoutMs: 60_000 });
        await jobs.untilDone('webhook');
        expect(listEvents(push)).toEqual(['push.finished', 'recipient.delivered']);
      },
    );
  } finally {
    await receiver.stop();
  }
});

test('redrive: the pages of a re-drive', async () => {
  const { app } = tenant;
  const tokens: string[] = [];
  for (let n = 0; n < REDRIVEN; n += 1) tokens.push((await registerDevice(tenant.dev)).token);
  const old = await insertFailedPushes(mongo.db, app, tokens);
  const listNew = () =>
    mongo.db
      .collection<PushDocument>('pushes')
      .find({ app, 'idempotency.key': /^redrive:/ })
      .toArray();
  await runAgain(
    'redrive',
    async () => (await fixture.store.redrives.create(app, {}, old)) ?? '',
    (redrive) => [{ redrive }],
    async (redrive) => {
      const isOver = async () => (await fixture.store.redrives.find(redrive))?.state === 'finished';
      await until(isOver, { timeoutMs: 30_000, what: 'the end of the re-drive' });
      expect(await fixture.store.redrives.find(redrive)).toMatchObject({
        ...{ total: REDRIVEN, done: REDRIVEN, recipients: REDRIVEN, skipped: {} },
      });
      expect((await listNew()).map(({ work }) => work?.tokens).sort()).toEqual(tokens.toSorted());
    },
  );
});
