import { acceptPush } from '@carillon/accept/accept-push';
import { type Accept, createAccept } from '@carillon/accept/admit-push';
import { ApiError } from '@carillon/core/api-error';
import { collapseHash, splitTokens } from '@carillon/core/batch';
import { batchId, newPushId, pushStartMs } from '@carillon/core/ids';
import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import { connectPresence, type PresenceServer } from '@carillon/presence/presence-server';
import { createRateCounter } from '@carillon/presence/rate-counter';
import { type BoardQueues, openBoardQueues, type Queue } from '@carillon/queue/board-queues';
import type { RedriveJob } from '@carillon/queue/jobs';
import { createProducers, type Producers } from '@carillon/queue/producers';
import type { QueueWorker } from '@carillon/queue/workers';
import type { PushDocument, RedriveDocument, RedriveFilter } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import {
  deliver,
  insertPush,
  newTokens,
  type StoreUnderTest,
  startStore,
  type TestPush,
} from '../../../packages/store/test/store-under-test.ts';
import { until } from '../../../test/support/until.ts';
import { createSemaphore } from '../src/deliver/semaphore.ts';
import { redrivePage } from '../src/redrive/redrive-page.ts';
import { startWorkers } from '../src/workers.ts';

const APP = 'a'.repeat(24);
const KEY = 'weather';
const REJECTED = failureCode('rejected-by-provider');
const TOO_LARGE = failureCode('payload-too-large');
const DAY_MS = 86_400_000;

let database: StoreUnderTest;
let redis: Awaited<ReturnType<typeof startRedis>>;
let producers: Producers;
let board: BoardQueues;
let queue: Queue;
let worker: QueueWorker | undefined;
let errors: unknown[];
beforeAll(async () => {
  [database, redis] = await Promise.all([startStore(), startRedis()]);
  producers = createProducers(redis, () => undefined);
  board = await openBoardQueues(redis, () => undefined);
  queue = board.queues.find(({ name }) => name === 'redrive') as Queue;
});
afterAll(async () => {
  await board?.close();
  await producers?.close();
  await redis?.stop();
  await database?.stop();
});
beforeEach(async () => {
  errors = [];
  await queue.obliterate({ force: true });
  await database.clear();
});
afterEach(async () => {
  await worker?.stop();
  worker = undefined;
});

const accept: Accept = (app, request, origin) =>
  acceptPush(database.store, producers, app, request, origin);

const resources = (acceptBy = accept, store: Store = database.store) => ({
  ...{ store, producers, accept: acceptBy, isStopping: () => false },
  largePushes: createSemaphore(1),
  onError: (error: unknown) => void errors.push(error),
});

/** Starts the worker of the queue of re-drives. */
function startWorker(acceptBy?: Accept): void {
  const unused = () => Promise.reject(new Error('no other job is expected'));
  const processors = {
    ...{ fanOut: unused, deliver: unused, checkCompletion: unused },
    ...{ recordActivity: unused, recordKeyUses: unused },
    redrive: (page: RedriveJob) => redrivePage(resources(acceptBy), page),
  };
  const settings = { redis, onError: (error: unknown) => void errors.push(error) };
  [worker] = startWorkers(settings, processors, ['redrive'], 1);
}

async function insertDevices(tokens: readonly string[]): Promise<void> {
  const at = new Date();
  const fields = { app: APP, platform: 'android', registeredAt: at, lastActiveAt: at };
  const devices = tokens.map((_id) => ({ _id, ...fields }));
  await database.db.collection<{ _id: string }>('devices').insertMany(devices);
}

/** Inserts a push to registered devices, of which the first ones have failed with these codes. */
async function insertFailed(
  devices: number,
  codes: number[],
  options: Parameters<typeof insertPush>[2] = {},
): Promise<TestPush> {
  const tokens = newTokens(devices);
  await insertDevices(tokens);
  const push = await insertPush(database, tokens, options);
  const ends = codes.map((code, n) => [tokens[n] ?? '', code]);
  await deliver(database.store, push, Object.fromEntries(ends));
  return push;
}

const insertTwo = async (): Promise<[TestPush, TestPush]> => [
  await insertFailed(1, [REJECTED]),
  await insertFailed(1, [REJECTED]),
];

const createRedrive = async (filter: RedriveFilter = {}, pushes?: string[], app = APP) =>
  (await database.store.redrives.create(app, filter, pushes)) ?? '';

/** Waits for the end of a re-drive, and adds the job of its page again and again, as the reconciler does. */
function waitForEnd(id: string): Promise<RedriveDocument> {
  const findEnded = async () => {
    const redrive = await database.store.redrives.find(id);
    if (redrive !== undefined) await producers.redrive(redrive);
    return redrive?.state !== 'running' && redrive;
  };
  return until(findEnded, { what: 'the re-drive has ended', timeoutMs: 60_000 });
}

/** Runs a re-drive to its end. */
async function redrive(filter: RedriveFilter = {}, pushes?: string[]) {
  const id = await createRedrive(filter, pushes);
  if (worker === undefined) startWorker();
  return waitForEnd(id);
}

const oldPushOf = ({ idempotency }: PushDocument) => idempotency?.key.split(':')[2] ?? '';

/** Reads the new pushes: the id of the old one, and the tokens. */
async function readNewPushes(): Promise<Record<string, string[]>> {
  const found = await database.pushes
    .find({ 'idempotency.key': /^redrive:/ })
    .sort({ 'idempotency.key': 1 })
    .toArray();
  return Object.fromEntries(
    found.map((push) => [oldPushOf(push), splitTokens(push.work?.tokens ?? '')]),
  );
}

async function readPush(_id: string): Promise<PushDocument> {
  return (await database.pushes.findOne({ _id })) as PushDocument;
}

/** Reads the new push of an old one. */
async function readNewPush(old: string): Promise<PushDocument | null> {
  return database.pushes.findOne({ 'idempotency.key': new RegExp(old) });
}

describe('an account', () => {
  const OTHER = 'b'.repeat(24);
  const THIRD = 'c'.repeat(24);
  let presence: PresenceServer;
  let account: string;
  beforeEach(async () => {
    presence = await connectPresence(redis);
    account = await database.store.accounts.create('One', 'pro');
    await insertApp(APP, account);
  });
  afterEach(() => presence.close());

  async function insertApp(_id: string, ofAccount: string): Promise<void> {
    const app = { _id, ...{ account: ofAccount, name: _id, createdAt: new Date() } };
    await database.db.collection<{ _id: string }>('apps').insertOne(app);
  }

  /** Gives all pushes and devices of the first app to another one. */
  async function moveTo(app: string): Promise<void> {
    for (const name of ['pushes', 'batches', 'devices'])
      await database.db.collection(name).updateMany({ app: APP }, { $set: { app } });
  }

  const acceptWithinLimit = () => {
    const counter = createRateCounter(presence, () => undefined);
    return createAccept(database.store, producers, counter);
  };

  test('whose limit is reached gets the rest of its re-drives later, and others pass meanwhile', async () => {
    const others = await database.store.accounts.create('Two', 'pro');
    await insertApp(OTHER, account);
    await insertApp(THIRD, others);
    for (const app of [THIRD, OTHER, APP]) {
      await insertFailed(1, [REJECTED]);
      await insertFailed(1, [REJECTED]);
      if (app !== APP) await moveTo(app);
    }
    await database.store.accounts.limit(account, 1);
    startWorker(acceptWithinLimit());
    const limited = [await createRedrive(), await createRedrive({}, undefined, OTHER)];
    for (const id of limited) await producers.redrive({ _id: id });
    await until(async () => Object.keys(await readNewPushes()).length > 0);
    // The reconciler adds their jobs again, before that of the other account.
    await until(async () => (await queue.getJobCountByTypes('wait', 'active')) === 0);
    for (const id of limited) await producers.redrive({ _id: id });
    const free = await createRedrive({}, undefined, THIRD);
    expect(await waitForEnd(free)).toMatchObject({ state: 'finished', done: 2, recipients: 2 });
    for (const id of limited)
      expect(await database.store.redrives.find(id)).toMatchObject({ state: 'running' });
    expect(Object.keys(await readNewPushes())).toHaveLength(1 + 2);

    await database.store.accounts.limit(account, null);
    for (const id of limited)
      expect(await waitForEnd(id)).toMatchObject({ state: 'finished', done: 2, skipped: {} });
    expect(Object.keys(await readNewPushes())).toHaveLength(6);
    expect(errors).toEqual([]);
  });

  test('that is suspended gets no re-drive', async () => {
    await insertFailed(1, [REJECTED]);
    await database.store.accounts.suspend(account);
    startWorker(acceptWithinLimit());
    expect(await redrive()).toMatchObject({ skipped: { 'account-suspended': 1 }, recipients: 0 });
    expect(await readNewPushes()).toEqual({});
  });
});

test('each old push gets one new push, to its recipients that failed, with the expiry of the old one', async () => {
  const single = await insertFailed(3, [REJECTED, OUTCOMES.gone, OUTCOMES.sent]);
  const many = await insertFailed(6, [REJECTED, TOO_LARGE, 1, 1, REJECTED], {
    shape: 'in two batches',
  });
  await insertFailed(2, []);
  expect(await redrive()).toMatchObject({
    ...{ state: 'finished', total: 2, done: 2, recipients: 4, skipped: {} },
  });
  expect(await readNewPushes()).toEqual({
    [single.id]: [single.tokens[0]],
    [many.id]: [many.tokens[0], many.tokens[1], many.tokens[4]],
  });
  for (const { id } of [single, many]) {
    const { data, expiresAt, sendUntil } = await readPush(id);
    expect(await readNewPush(id)).toMatchObject({ data, expiresAt, sendUntil });
  }
  expect((await database.store.failures.list({ app: APP, limit: 10 })).batches).toMatchObject([
    { push: many.id, redriven: 1 },
    { push: many.id, redriven: 2 },
    { push: single.id, redriven: 1 },
  ]);
});

test('a filter selects recipients by reason and channel, a list selects pushes', async () => {
  const first = await insertFailed(2, [REJECTED, TOO_LARGE]);
  const second = await insertFailed(2, [TOO_LARGE]);
  expect(await redrive({ channel: 'apns' })).toMatchObject({ total: 0, done: 0 });
  expect(await redrive({ reason: 'rejected-by-provider' })).toMatchObject({ total: 1, done: 1 });
  expect(await readNewPushes()).toEqual({ [first.id]: [first.tokens[0]] });
  expect(await redrive({}, [second.id, second.id])).toMatchObject({ total: 1, recipients: 1 });
  expect(Object.keys(await readNewPushes()).sort()).toEqual([first.id, second.id].sort());
});

test('a later re-drive leaves out recipients of an earlier one, and includes those that failed since', async () => {
  const push = await insertFailed(4, [REJECTED, REJECTED]);
  expect(await redrive()).toMatchObject({ done: 1, recipients: 2 });
  expect(await redrive()).toMatchObject({ done: 0, skipped: { 'nothing-failed': 1 } });
  const outcomes = new Binary(Uint8Array.of(REJECTED, REJECTED, TOO_LARGE, 1));
  await database.pushes.updateOne({ _id: push.id }, { $set: { 'work.outcomes': outcomes } });
  expect(await redrive()).toMatchObject({ done: 1, recipients: 1 });
  const all = await database.pushes.find({ 'idempotency.key': new RegExp(push.id) }).toArray();
  expect(all.map(({ work }) => work?.tokens).sort()).toEqual(
    [push.tokens.slice(0, 2).join(' '), push.tokens[2] ?? ''].sort(),
  );
});

test('expired, deleted and removed pushes, and those without a device, are skipped and counted', async () => {
  const without = await insertFailed(1, [REJECTED]);
  await database.db.collection('devices').deleteMany({});
  const [expired, deleted] = await insertTwo();
  await database.pushes.updateOne({ _id: expired.id }, { $set: { sendUntil: new Date() } });
  await database.store.pushCompletion.markDeleted(APP, deleted.id);
  const removed = newPushId(Date.now());
  expect(await redrive({}, [without.id, expired.id, deleted.id, removed])).toMatchObject({
    ...{ state: 'finished', total: 4, done: 0 },
    skipped: { 'no-recipients': 1, expired: 1, deleted: 1, removed: 1 },
  });
  expect(await readNewPushes()).toEqual({});
  // Its device may be registered again.
  await insertDevices(without.tokens);
  expect(await redrive({}, [without.id])).toMatchObject({ done: 1 });
});

test('a push with a time to live of 0 is sent again to connected devices only, and no longer than before', async () => {
  const push = await insertFailed(1, [REJECTED]);
  const { acceptedAt, sendUntil } = await readPush(push.id);
  await database.pushes.updateOne({ _id: push.id }, { $set: { expiresAt: acceptedAt } });
  expect(await redrive()).toMatchObject({ done: 1, recipients: 1, skipped: {} });
  const added = await readNewPush(push.id);
  expect(added?.sendUntil).toEqual(sendUntil);
  // As of any push that is for connected devices only.
  expect(added?.expiresAt).toEqual(added?.acceptedAt);
});

test('a push that expires before its new one is accepted is skipped as expired, and nothing stays reserved', async () => {
  const push = await insertFailed(1, [REJECTED]);
  const { sendUntil } = await readPush(push.id);
  const atItsEnd = { ...database.store, clock: { ...database.store.clock, now: () => +sendUntil } };
  let requests = 0;
  startWorker((app, request, origin) => {
    requests += 1;
    return acceptPush(atItsEnd, producers, app, request, origin);
  });
  expect(await redrive()).toMatchObject({ done: 0, recipients: 0, skipped: { expired: 1 } });
  expect(requests).toBe(1);
  expect(await readNewPushes()).toEqual({});
  expect((await readPush(push.id)).work?.redriven).toEqual([]);
  expect(errors).toEqual([]);
});

test('devices with a newer push of the collapse key are left out; without others the push is skipped', async () => {
  const collapse = collapseHash(APP, KEY);
  const partly = await insertFailed(2, [REJECTED, REJECTED], { collapse });
  const fully = await insertFailed(1, [REJECTED], { collapse });
  await insertPush(database, [partly.tokens[0] ?? '', 'another'], { collapse });
  await insertPush(database, ['someone', ...fully.tokens, 'last'], {
    collapse,
    shape: 'in two batches',
  });
  expect(await redrive()).toMatchObject({ total: 2, done: 1, skipped: { 'newer-push': 1 } });
  expect(await readNewPushes()).toEqual({ [partly.id]: [partly.tokens[1]] });
});

test('a push of more than 100 batches with failures gets one new push for each 100', async () => {
  const push = await insertFailed(2, [REJECTED], { shape: 'in two batches' });
  const [template] = await database.batches.find({ push: push.id }).toArray();
  const tokens = newTokens(100);
  await insertDevices(tokens);
  const copies = tokens.map((token, n) => ({
    ...{ ...template, _id: batchId(push.id, n + 2), push: push.id, app: APP },
    ...{ from: token, to: token, work: { ...template?.work, tokens: token } },
  }));
  await database.batches.insertMany(copies as Parameters<typeof database.batches.insertMany>[0]);
  expect(await redrive()).toMatchObject({ total: 1, done: 1, recipients: 101 });
  const added = await database.pushes.find({ 'idempotency.key': /^redrive:/ }).toArray();
  expect(added.map(({ devices }) => devices).sort()).toEqual([1, 100]);
  expect(new Set(added.flatMap(({ work }) => splitTokens(work?.tokens ?? ''))).size).toBe(101);
});

test('an app has one re-drive at a time', async () => {
  await insertFailed(1, [REJECTED]);
  const id = await createRedrive();
  expect(id).toMatch(/^[0-9a-f]{24}$/);
  expect(await createRedrive()).toBe('');
  expect(await database.store.redrives.create('b'.repeat(24), {})).toBeDefined();
  startWorker();
  await waitForEnd(id);
  expect(await createRedrive()).not.toBe('');
});

test('a re-drive continues after a temporary failure of the database or the acceptance', async () => {
  const push = await insertFailed(1, [REJECTED]);
  let failures = 0;
  startWorker(async (...request) => {
    failures += 1;
    if (failures === 1) throw new ApiError('SERVICE_UNAVAILABLE');
    return accept(...request);
  });
  expect(await redrive()).toMatchObject({ done: 1, skipped: {} });
  expect(await readNewPushes()).toEqual({ [push.id]: push.tokens });
  expect(errors).toHaveLength(1);
});

test('a push whose re-drive fails is skipped, and delays no other', async () => {
  const [broken, sound] = await insertTwo();
  startWorker((app, request, origin) =>
    request.tokens.includes(broken.tokens[0] ?? '')
      ? Promise.reject(new Error('of this push alone'))
      : accept(app, request, origin),
  );
  expect(await redrive()).toMatchObject({ done: 1, skipped: { error: 1 } });
  expect(await readNewPushes()).toEqual({ [sound.id]: sound.tokens });
});

test('workers on the same pages send once', async () => {
  const count = 120;
  const old: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const shape = n % 3 === 0 ? 'in two batches' : 'in the push';
    old.push((await insertFailed(2, [REJECTED, REJECTED], { shape })).id);
  }
  const id = await createRedrive();
  const stores = [database.store, await database.connect(), await database.connect()];
  const reserved: Error[] = [];
  async function work(store: Store): Promise<void> {
    for (;;) {
      const { state, cursor } = (await store.redrives.find(id)) ?? {};
      if (state !== 'running') return;
      const page = { redrive: id, cursor };
      await redrivePage(resources(accept, store), page).catch((error) => reserved.push(error));
    }
  }
  await Promise.all(stores.map(work));
  expect(await database.store.redrives.find(id)).toMatchObject({
    ...{ state: 'finished', total: count, done: count, recipients: 2 * count, skipped: {} },
  });
  const added = await database.pushes.find({ 'idempotency.key': /^redrive:/ }).toArray();
  expect(added.map(oldPushOf).sort()).toEqual(old.sort());
  expect(added.flatMap(({ work }) => splitTokens(work?.tokens ?? ''))).toHaveLength(2 * count);
  // They have met: otherwise the test shows nothing.
  expect(reserved.length).toBeGreaterThan(0);
  expect(errors).toEqual([]);
});

test('a worker keeps the reservations of a push that another one accepts meanwhile', async () => {
  const push = await insertFailed(2, [REJECTED, REJECTED], { collapse: collapseHash(APP, KEY) });
  await database.pushes.updateOne({ _id: push.id }, { $set: { options: { collapse_key: KEY } } });
  // A new push is a newer one then.
  await until(() => Date.now() > pushStartMs(push.id));
  const id = await createRedrive();
  const fail: Accept = () => Promise.reject(new ApiError('SERVICE_UNAVAILABLE'));
  await expect(redrivePage(resources(fail), { redrive: id })).rejects.toThrow();
  const { store } = database;
  const others = [() => redrivePage(resources(), { redrive: id })];
  const findByIdempotencyKey: Store['pushes']['findByIdempotencyKey'] = async (...key) => {
    const found = await store.pushes.findByIdempotencyKey(...key);
    // The other worker's new push is a newer one of the collapse key.
    await others.pop()?.();
    return found;
  };
  const late = { ...store, pushes: { ...store.pushes, findByIdempotencyKey } };
  await redrivePage(resources(accept, late), { redrive: id });
  expect(await readNewPushes()).toEqual({ [push.id]: push.tokens });
  startWorker();
  expect(await waitForEnd(id)).toMatchObject({ done: 1, recipients: 2, skipped: {} });
  expect(await redrive()).toMatchObject({ done: 0, skipped: { 'nothing-failed': 1 } });
});

test('the job of a page that is done does nothing', async () => {
  const [first, second] = await insertTwo();
  const id = await createRedrive();
  const done = { cursor: first.id, done: 1, recipients: 1, skipped: {} };
  await database.store.redrives.recordProgress({ _id: id }, done);
  await redrivePage(resources(), { redrive: id });
  expect(await readNewPushes()).toEqual({});
  await redrivePage(resources(), { redrive: id, cursor: first.id });
  expect(await readNewPushes()).toEqual({ [second.id]: second.tokens });
});

test('a worker that stops leaves the rest of its page to the next one', async () => {
  const pushes = await insertTwo();
  const id = await createRedrive();
  await redrivePage({ ...resources(), isStopping: () => true }, { redrive: id });
  expect(await database.store.redrives.find(id)).toMatchObject({ state: 'running', done: 0 });
  expect(await readNewPushes()).toEqual({});
  startWorker();
  expect(await waitForEnd(id)).toMatchObject({ state: 'finished', total: 2, done: 2 });
  expect(Object.keys(await readNewPushes()).sort()).toEqual(pushes.map((push) => push.id).sort());
});

test('a re-drive older than the idempotency keys is stopped', async () => {
  await insertFailed(1, [REJECTED]);
  const id = await createRedrive();
  const createdAt = new Date(Date.now() - DAY_MS);
  await database.db.collection('redrives').updateMany({}, { $set: { createdAt } });
  startWorker();
  expect(await waitForEnd(id)).toMatchObject({ state: 'stopped', done: 0 });
  expect(await readNewPushes()).toEqual({});
});
