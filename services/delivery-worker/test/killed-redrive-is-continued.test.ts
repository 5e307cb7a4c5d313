import { createProducers, type Producers } from '@carillon/queue/producers';
import type { PushDocument, RedriveDocument } from '@carillon/store/documents';
import { connectStore, type Store } from '@carillon/store/store';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { MongoClient } from 'mongodb';
import { insertFailedPushes } from '../../../packages/store/test/failed-pushes.ts';
import {
  type DataServers,
  startDataServers,
} from '../../../test/support/operators/data-servers.ts';
import {
  type ServiceProcess,
  startService,
} from '../../../test/support/operators/service-process.ts';
import { until } from '../../../test/support/until.ts';

/** Several pages. */
const MANY = 2_000;
const FEW = 30;
const END_MS = 90_000;
const LIMIT_MS = 200_000;

let servers: DataServers;
let client: MongoClient;
let store: Store;
let producers: Producers;
let redis: Redis;
let scheduler: ServiceProcess;
let workers: ServiceProcess[] = [];
let app: string;
beforeAll(async () => {
  servers = await startDataServers();
  client = await new MongoClient(servers.env.MONGODB_URI).connect();
  store = await connectStore({ uri: servers.env.MONGODB_URI, appName: 'test' });
  producers = createProducers(servers.redis, () => undefined);
  redis = new Redis(servers.redis.url);
  scheduler = await startService('scheduler', servers.env);
  await scheduler.untilReady();
}, LIMIT_MS);
afterEach(async () => {
  await Promise.all(workers.map((worker) => worker.stop()));
  workers = [];
});
afterAll(async () => {
  await scheduler?.stop();
  redis?.disconnect();
  await producers?.close();
  await store?.close();
  await client?.close();
  await servers?.stop();
});

/** Starts a worker that takes re-drives alone. @param failpoints as in the setting FAILPOINTS */
async function startWorker(failpoints?: string): Promise<ServiceProcess> {
  const worker = await startService('delivery-worker', {
    ...{ ...servers.env, QUEUES: 'redrive', LOG_LEVEL: 'warn' },
    ...(failpoints !== undefined && { FAILPOINTS: failpoints }),
  });
  workers.push(worker);
  return worker;
}

/** Inserts an app with failed pushes to a device of their own each, and begins to re-drive them. Returns the re-drive. */
async function startRedrive(count: number): Promise<string> {
  const account = await store.accounts.create('account', 'pro');
  await store.accounts.limit(account, null);
  app = await store.apps.create('app', account);
  const db = client.db();
  const at = new Date();
  const tokens = Array.from({ length: count }, (_, n) => `${app}${n}`);
  await db.collection<{ _id: string }>('devices').insertMany(
    tokens.map((_id) => ({
      ...{ _id, app, platform: 'android', registeredAt: at, lastActiveAt: at },
    })),
  );
  await insertFailedPushes(db, app, tokens);
  const id = (await store.redrives.create(app, {})) ?? '';
  await producers.redrive({ _id: id });
  return id;
}

const findDone = async (id: string) => (await store.redrives.find(id))?.done ?? 0;

async function untilDone(id: string, count: number): Promise<void> {
  const isDone = async () => (await findDone(id)) >= count;
  await until(isDone, { what: 'a part of the re-drive is done', timeoutMs: END_MS, everyMs: 5 });
}

async function waitForEnd(id: string): Promise<RedriveDocument | undefined> {
  const isOver = async () => (await store.redrives.find(id))?.state !== 'running';
  await until(isOver, { what: 'the re-drive has ended', timeoutMs: END_MS });
  return store.redrives.find(id);
}

/** Each old push has one new push, to its device. */
async function expectSentOnce(count: number): Promise<void> {
  const pushes = client.db().collection<PushDocument>('pushes');
  const added = await pushes.find({ app, 'idempotency.key': /^redrive:/ }).toArray();
  expect(added).toHaveLength(count);
  const redriven = added.map(({ idempotency }) => idempotency?.key.split(':')[2]);
  expect(new Set(redriven).size).toBe(count);
  expect(new Set(added.map(({ work }) => work?.tokens)).size).toBe(count);
  // Pushes without an idempotency key: the old ones.
  expect(await pushes.countDocuments({ app })).toBe(2 * count);
}

const finished = (count: number) => ({
  ...{ state: 'finished', total: count, done: count, recipients: count, skipped: {} },
});

test.each([
  ['the reservation and the acceptance', 'accept'],
  ['the acceptance and the progress', 'accepted'],
])(
  'a worker killed between %s leaves the re-drive to the next one',
  async (_between, failpoint) => {
    const id = await startRedrive(FEW);
    for (const occurrence of [1, 4]) {
      const killed = await startWorker(`${failpoint}:kill#${occurrence}`);
      await killed.exited;
      expect(await store.redrives.find(id)).toMatchObject({ state: 'running', done: 0 });
    }
    await startWorker();
    expect(await waitForEnd(id)).toMatchObject(finished(FEW));
    await expectSentOnce(FEW);
  },
  LIMIT_MS,
);

test.each(['accept', 'accepted'])(
  'a worker suspended at the failpoint %s sends nothing again when it continues',
  async (failpoint) => {
    const id = await startRedrive(FEW);
    const suspended = await startWorker(`${failpoint}:stop#3`);
    const reservedBy = { app, 'work.redriven.by': id };
    const pushes = client.db().collection<PushDocument>('pushes');
    await until(async () => (await pushes.countDocuments(reservedBy)) > 0, { timeoutMs: END_MS });
    await startWorker();
    expect(await waitForEnd(id)).toMatchObject(finished(FEW));
    suspended.kill('SIGCONT');
    // It ends what it was doing.
    await suspended.stop();
    await expectSentOnce(FEW);
    expect(await store.redrives.find(id)).toMatchObject(finished(FEW));
  },
  LIMIT_MS,
);

test(
  'many pushes are re-driven once, by two workers of which each is killed while Redis loses its data',
  async () => {
    const id = await startRedrive(MANY);
    const [first, second] = [await startWorker(), await startWorker()];
    await untilDone(id, MANY * 0.1);
    first.kill('SIGKILL');
    await untilDone(id, MANY * 0.2);
    await redis.flushall();
    await untilDone(id, MANY * 0.4);
    second.kill('SIGKILL');
    await second.exited;
    expect((await store.redrives.find(id))?.state).toBe('running');
    await redis.flushall();
    await startWorker();
    await untilDone(id, MANY * 0.6);
    // The worker still works on a page, and the scheduler adds a job for the same one.
    await redis.flushall();
    await startWorker();
    expect(await waitForEnd(id)).toMatchObject(finished(MANY));
    await expectSentOnce(MANY);
  },
  LIMIT_MS,
);
