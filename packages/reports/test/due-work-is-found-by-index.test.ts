import { CHANNELS } from '@carillon/core/channels';
import { batchId, newPushId } from '@carillon/core/ids';
import type { Batch, BatchDocument, PushDocument } from '@carillon/store/documents';
import { beforeEach, describe, expect, test } from '@jest/globals';
import type { Filter } from 'mongodb';
import { PARKED_AT } from '../../store/src/parked-batches.ts';
import {
  ACCOUNT,
  APP,
  anHourAgo,
  batch,
  CLAIM_FIELDS,
  embeddedBatch,
  inAnHour,
  insertDocuments,
  PUSH,
  push,
} from '../../store/test/document-fixtures.ts';
import { profile } from '../../store/test/store-under-test.ts';
import { useStore } from '../../store/test/use-store.ts';

const LIMIT = 100_000;
const LEASE_MS = 6_000;
const HOUR_MS = 3_600_000;
const NOTHING = { pending: 0, deferred: 0, oldestMs: 0 };

const under = useStore();
const { store } = under;
beforeEach(async () => {
  await under.clear();
  await store.suspensions.refresh();
});

let sequence = 0;

/** Inserts a batch with a document of its own, and returns its id. */
async function insertBatch(
  fields: Partial<Batch>,
  other: Partial<BatchDocument> = {},
): Promise<string> {
  sequence += 1;
  const _id = batchId(PUSH, sequence);
  await insertDocuments(under.db, 'batches', batch({ _id, work: embeddedBatch(fields), ...other }));
  return _id;
}

/** Inserts a push with an embedded batch, and returns its id. */
async function insertPush(
  fields: Partial<Batch>,
  other: Partial<PushDocument> = {},
): Promise<string> {
  sequence += 1;
  const _id = `push${sequence}`;
  await insertDocuments(under.db, 'pushes', push({ _id, work: embeddedBatch(fields), ...other }));
  return _id;
}

/** Inserts a push whose fan-out is due, and returns its id. */
async function insertFanOut(at: Date, other: Partial<PushDocument> = {}): Promise<string> {
  sequence += 1;
  const _id = `push${sequence}`;
  const fan = { seq: 0, next: 0, done: false, at };
  await insertDocuments(under.db, 'pushes', push({ _id, fan, ...other }));
  return _id;
}

async function measure(channel: Batch['channel'] = 'mqtt', limit = LIMIT) {
  return store.backlog.measure(channel, limit);
}

test('due, claimed and unreleased batches are pending, in pushes and on their own', async () => {
  expect(await measure()).toEqual(NOTHING);
  const claimed = { claim: 'c', at: new Date(Date.now() + LEASE_MS - 1_000) };
  for (const insert of [insertBatch, insertPush]) {
    await insert({});
    await insert(claimed);
    await insert({ state: 'closed' });
  }
  await insertBatch({ state: 'waiting' });
  expect(await measure()).toMatchObject({ pending: 5, deferred: 0 });
  expect(await measure('fcm')).toEqual(NOTHING);
});

test('a batch that waits longer than a lease is deferred; one that is not open yet is neither', async () => {
  for (const insert of [insertBatch, insertPush]) await insert({ at: inAnHour() });
  await insertPush({ at: inAnHour() }, { state: 'scheduled' });
  await insertPush({}, { state: 'scheduled' });
  await insertBatch({ state: 'waiting', at: inAnHour() });
  expect(await measure()).toEqual({ ...NOTHING, deferred: 2 });
});

test('the oldest age is that of a batch without a worker, released or not', async () => {
  await insertBatch({ claim: 'c', at: new Date(Date.now() + LEASE_MS - 100) });
  expect((await measure()).oldestMs).toBe(0);
  const hoursAgo = (hours: number) => new Date(Date.now() - hours * HOUR_MS);
  const oldestHours = async () => Math.round((await measure()).oldestMs / HOUR_MS);
  await insertPush({ at: hoursAgo(1) });
  expect(await oldestHours()).toBe(1);
  await insertBatch({ at: hoursAgo(2) });
  expect(await oldestHours()).toBe(2);
  await insertBatch({ state: 'waiting', at: hoursAgo(3) });
  expect(await oldestHours()).toBe(3);
});

/** Measures the pending batches by app, with a bound of the batches read of each kind. */
const measureApps = (limit?: number, active: string[] = []) =>
  store.appBacklog.measure(async () => active, limit);

test('pending batches are counted by app, over all channels, those with most first', async () => {
  expect(await measureApps()).toEqual([]);
  await insertPush({ at: anHourAgo() }, { app: 'other' });
  for (const insert of [insertBatch, insertPush]) {
    for (const channel of ['mqtt', 'fcm'] as const) await insert({ channel });
    await insert({ at: inAnHour() });
    await insert({ state: 'closed' });
  }
  await insertBatch({ state: 'waiting' });
  const [most, other, ...others] = await measureApps();
  expect(most).toMatchObject({ app: APP, pending: 5, isAtLeast: false });
  expect(other).toMatchObject({ app: 'other', pending: 1, isAtLeast: false });
  expect(Math.round((other?.oldestMs ?? 0) / HOUR_MS)).toBe(1);
  expect(others).toEqual([]);
});

test('an app with more batches than are read hides no app that was active', async () => {
  for (let n = 0; n < 6; n += 1) await insertPush({ at: anHourAgo() });
  await insertPush({}, { app: 'beside' });
  await insertPush({ state: 'closed' }, { app: 'beside', state: 'finished' });
  await insertBatch({}, { app: 'large push', from: 'a', to: 'b' });
  await insertPush({}, { app: 'inactive' });
  const active = ['beside', 'large push', APP, 'done'];
  const found = await measureApps(4, active);
  expect(found).toEqual([
    { app: APP, pending: 4, isAtLeast: true, oldestMs: expect.any(Number) },
    { app: 'large push', pending: 1, isAtLeast: false, oldestMs: expect.any(Number) },
    { app: 'beside', pending: 1, isAtLeast: false, oldestMs: expect.any(Number) },
  ]);
  const neverAsked = () => Promise.reject(new Error('the active apps were listed'));
  expect(await store.appBacklog.measure(neverAsked, 10)).toHaveLength(4);
});

test('batches of suspended accounts are not counted', async () => {
  for (const insert of [insertBatch, insertPush]) {
    await insert({});
    await insert({ at: inAnHour() });
    await insert({}, { app: 'other' });
  }
  await insertDocuments(under.db, 'apps', { _id: APP, account: ACCOUNT });
  await insertDocuments(under.db, 'accounts', { _id: ACCOUNT, suspendedAt: anHourAgo() });
  await store.suspensions.refresh();
  expect(await measure()).toMatchObject({ pending: 2, deferred: 0 });
  expect(await measureApps()).toMatchObject([{ app: 'other', pending: 2 }]);
});

test('a count stops at its limit', async () => {
  for (let n = 0; n < 8; n += 1) await insertBatch({ at: n < 5 ? anHourAgo() : inAnHour() });
  expect(await measure('mqtt', 2)).toMatchObject({ pending: 2, deferred: 2 });
});

const profileReads = (task: () => Promise<unknown>) =>
  profile(under, task, { ns: /\.(pushes|batches)$/ });

test.each(['with a suspended account', 'without'])('no document is read, %s', async (which) => {
  if (which !== 'without') {
    await insertDocuments(under.db, 'apps', { _id: 'suspended', account: ACCOUNT });
    await insertDocuments(under.db, 'accounts', { _id: ACCOUNT, suspendedAt: anHourAgo() });
  }
  await store.suspensions.refresh();
  for (const insert of [insertBatch, insertPush]) {
    for (const at of [anHourAgo(), inAnHour()]) await insert({ at });
    await insert({}, { app: 'suspended' });
    for (const channel of ['fcm', 'apns'] as const) await insert({ channel });
  }
  await insertBatch({ state: 'waiting' });
  const reads = await profileReads(measure);
  expect(reads).toHaveLength(8);
  for (const read of reads) {
    expect(read).toMatchObject({ docsExamined: 0 });
    // The index leads to the channel: other channels' batches cost nothing.
    expect(read.keysExamined).toBeLessThanOrEqual(4);
  }
});

test.each([100, 2])('counting by app reads no document, at most %d entries', async (limit) => {
  for (let n = 0; n < 9; n += 1)
    for (const insert of [insertBatch, insertPush]) await insert({}, { app: `app ${n % 3}` });
  const reads = await profileReads(() => measureApps(limit));
  // Those that are due, of three kinds, and those that are parked, of two.
  expect(reads).toHaveLength(5 * CHANNELS.length);
  for (const { docsExamined, keysExamined } of reads) {
    expect(docsExamined).toBe(0);
    expect(keysExamined).toBeLessThanOrEqual(Math.min(9, limit) + 1);
  }
});

test('due batches are found by time through the index, and no others are read', async () => {
  for (const insert of [insertBatch, insertPush]) {
    await insert({ at: inAnHour() });
    for (const channel of ['web-push', 'mqtt', 'apns'] as const) await insert({ channel });
  }
  const reads = await profileReads(async () =>
    expect(await store.batchTable.findDue(7)).toHaveLength(6),
  );
  expect(reads).toHaveLength(2);
  for (const read of reads) {
    expect(read).toMatchObject({ docsExamined: 3 });
    expect(read).not.toHaveProperty('hasSortStage');
  }
});

test('a channel with more due batches than a tick finds hides no batch of another channel', async () => {
  for (const insert of [insertBatch, insertPush]) {
    for (let n = 0; n < 3; n += 1) await insert({ channel: 'mqtt', at: anHourAgo() });
    await insert({ channel: 'apns', at: new Date(Date.now() - 1_000) });
  }
  const found = await store.batchTable.findDue(2);
  const channels = found.map(({ channel }) => channel).toSorted();
  expect(channels).toEqual(['apns', 'apns', 'mqtt', 'mqtt', 'mqtt', 'mqtt', 'mqtt']);
});

test('only a single push over MQTT that no worker has claimed waits for its first attempt', async () => {
  const [due, first] = [new Date(Date.now() - 1_000), new Date(Date.now() - 2_000)];
  await insertPush({ at: first });
  await insertPush({ at: due, tries: 1 });
  await insertPush({ at: due }, { dueAt: due });
  await insertPush({ at: due, channel: 'apns' });
  await insertBatch({ at: due });
  const found = await store.batchTable.findDue(10);
  expect(found).toHaveLength(5);
  expect(found.flatMap(({ at, isFirstAttempt }) => (isFirstAttempt ? at : []))).toEqual([first]);
});

test.each(CHANNELS)(
  'single pushes over %s that wait hide neither a retry nor a scheduled push of another app',
  async (channel) => {
    const justNow = (agoMs: number) => new Date(Date.now() - agoMs);
    for (let n = 0; n < 9; n += 1) await insertPush({ at: anHourAgo(), channel });
    const others = [
      await insertPush({ at: justNow(2_000), channel, tries: 1 }, { app: 'other' }),
      await insertPush({ at: justNow(1_500), channel }, { app: 'other', dueAt: justNow(1_500) }),
    ];
    await insertPush({ at: justNow(1_000), channel });
    const found = await store.batchTable.findDue(4);
    expect(found.filter(({ app }) => app === 'other').map(({ id }) => id)).toEqual(
      expect.arrayContaining(others),
    );
    // The newest has the job of its acceptance.
    expect(found).toHaveLength(6);
  },
);

test('due batches of an app hide neither a retry of another nor the fan-out of its push', async () => {
  for (let n = 0; n < 9; n += 1) {
    await insertBatch({ at: anHourAgo() });
    await insertFanOut(anHourAgo());
  }
  const at = new Date(Date.now() - 1_000);
  const retry = await insertBatch({ tries: 1, at }, { app: 'other' });
  const fanOut = await insertFanOut(at, { app: 'other' });
  expect((await store.batchTable.findDue(4)).map(({ id }) => id)).toContain(retry);
  expect((await store.fanOuts.findDue(4)).map(({ id }) => id)).toContain(fanOut);
});

test('the batches of a push are found by push, however many others are in the index of due ones', async () => {
  for (let n = 0; n < 20; n += 1) await insertBatch({ state: 'waiting' }, { push: 'other' });
  await insertBatch({ state: 'waiting' });
  const plan = await under.db
    .collection('batches')
    .find({ push: PUSH, 'work.state': 'waiting' })
    .explain('queryPlanner');
  expect(plan.queryPlanner.rejectedPlans).toEqual([]);
  expect(JSON.stringify(plan.queryPlanner.winningPlan)).toContain('push_1_work.state_1');
});

/** Documents with due work. */
const DUE: Readonly<Record<string, { collection: string; document: object }>> = {
  'a scheduled push': {
    collection: 'pushes',
    document: push({ state: 'scheduled', dueAt: anHourAgo() }),
  },
  'an embedded batch': { collection: 'pushes', document: push({ work: embeddedBatch() }) },
  'a batch of its own': { collection: 'batches', document: batch() },
  'a fan-out': {
    collection: 'pushes',
    document: push({ fan: { seq: 0, next: 0, done: false, at: anHourAgo() } }),
  },
  'an expired push': {
    collection: 'pushes',
    document: push({ expiresAt: anHourAgo(), sendUntil: anHourAgo() }),
  },
  'the end of a push': {
    collection: 'pushes',
    document: push({ state: 'finished', ending: 'expired' }),
  },
};

/** Finds what is due as a tick does; scheduled pushes are opened. Returns how much it is. */
async function countDue(): Promise<number> {
  const { batchTable, fanOuts, pushCompletion, pushes } = store;
  const opened = await pushes.openDue();
  const finders = [batchTable, fanOuts, pushCompletion];
  const found = await Promise.all(finders.map(({ findDue }) => findDue(10)));
  return opened + found.flat().length;
}

test.each(Object.entries(DUE))('%s is due', async (_, { collection, document }) => {
  expect(await countDue()).toBe(0);
  await insertDocuments(under.db, collection, document);
  expect(await countDue()).toBe(1);
});

test('work that is not due, claimed, done or of a suspended account is none', async () => {
  const idOf = (n: number) => `0190000000000000000000${n.toString().padStart(2, '0')}`;
  await insertDocuments(
    under.db,
    'pushes',
    push({ _id: idOf(1), state: 'scheduled', dueAt: inAnHour() }),
    push({ _id: idOf(2), work: embeddedBatch(CLAIM_FIELDS) }),
    push({ _id: idOf(3), work: embeddedBatch({ state: 'closed' }) }),
    push({ _id: idOf(4), fan: { seq: 0, next: 0, done: false, at: inAnHour() } }),
  );
  await insertDocuments(under.db, 'batches', batch({ work: embeddedBatch({ state: 'waiting' }) }));
  expect(await countDue()).toBe(0);
  await insertDocuments(under.db, 'pushes', push({ work: embeddedBatch() }));
  expect(await countDue()).toBe(1);
  await insertDocuments(under.db, 'accounts', { _id: ACCOUNT, suspendedAt: anHourAgo() });
  await insertDocuments(under.db, 'apps', { _id: APP, account: ACCOUNT });
  await store.suspensions.refresh();
  expect(await countDue()).toBe(0);
});

describe('a paused app with 5,000 due batches', () => {
  const [COUNT, PAGE] = [5_000, 1_000];
  /** An app that stays paused. */
  const QUIET = 'quiet app';
  let ids: string[];

  /** Inserts due batches of an app, half of them in pushes; returns their ids. */
  async function insertDue(app: string, count: number): Promise<string[]> {
    const pushIds = Array.from({ length: count / 2 }, () => newPushId(Date.now() - HOUR_MS));
    const pushes = pushIds.map((_id) => push({ _id, app, work: embeddedBatch() }));
    const batches = pushIds.map((id) => batch({ _id: batchId(id, 0), push: id, app }));
    await insertDocuments(under.db, 'pushes', ...pushes);
    await insertDocuments(under.db, 'batches', ...batches);
    return [...pushes, ...batches].map(({ _id }) => _id);
  }

  /** Claims batches as workers do that get their jobs. Returns how many were claimed. */
  async function claim(some: readonly string[]): Promise<number> {
    const claiming = some.map((id) => store.batchTable.claim(id, 'r:1', LEASE_MS));
    return (await Promise.all(claiming)).filter((claimed) => claimed !== undefined).length;
  }

  async function setPaused(app: string, paused: boolean): Promise<void> {
    await (paused ? store.apps.pause(app) : store.apps.resume(app));
    await store.suspensions.refresh();
  }

  const count = async (filter: Filter<{ _id: string }>): Promise<number> => {
    const { pushes, batches } = under;
    const counts = [pushes, batches].map((one) => one.countDocuments(filter as object));
    return (await Promise.all(counts)).reduce((total, one) => total + one);
  };
  const countDueOf = (app: string) =>
    count({ app, 'work.at': { $lte: new Date() }, 'work.state': 'ready' });

  beforeEach(async () => {
    const apps = [APP, QUIET].map((_id) => ({ _id, account: ACCOUNT }));
    await insertDocuments(under.db, 'apps', ...apps);
    for (const { _id } of apps) await setPaused(_id, true);
    ids = await insertDue(APP, COUNT);
    const quiet = await insertDue(QUIET, 2);
    for (const insert of [insertBatch, insertPush]) await insert({}, { app: 'other' });
    expect(await claim([...ids, ...quiet])).toBe(0);
  });

  test('hides no batch of another, and costs no search', async () => {
    const searches = await profileReads(async () => {
      const found = await store.batchTable.findDue(PAGE);
      expect(found.map(({ app }) => app)).toEqual(['other', 'other']);
      expect(await store.batchTable.unpark(PAGE)).toHaveLength(0);
    });
    expect(searches).toHaveLength(4);
    for (const { keysExamined } of searches) expect(keysExamined).toBeLessThanOrEqual(10);
    const counts = await profileReads(async () =>
      expect(await measure('mqtt', 100)).toMatchObject({ pending: 2, deferred: 100 }),
    );
    for (const { keysExamined } of counts.slice(4)) expect(keysExamined).toBeLessThanOrEqual(101);
    const untouched = { app: APP, 'work.tries': 0, 'work.claim': { $exists: false } };
    expect(await count(untouched)).toBe(COUNT);
  });

  test('is counted by app, those that wait longest by their age', async () => {
    expect(await measure()).toMatchObject({ pending: 2, deferred: COUNT + 2 });
    const [most, ...others] = await measureApps();
    expect(most).toMatchObject({ app: APP, pending: COUNT, isAtLeast: false });
    expect(Math.round((most?.oldestMs ?? 0) / HOUR_MS)).toBe(1);
    expect(others.map(({ app, pending }) => [app, pending])).toEqual(
      expect.arrayContaining([
        [QUIET, 2],
        ['other', 2],
      ]),
    );
    const limited = await measureApps(100);
    expect(limited[0]).toMatchObject({ app: APP, pending: 200, isAtLeast: true });
    expect(limited).toContainEqual(expect.objectContaining({ app: QUIET, pending: 2 }));
    expect(await store.appBacklog.lookUp(QUIET, new Date())).toMatchObject([
      { pending: 1 },
      { pending: 1 },
    ]);
  });

  test('is due again after its pause, although the scheduler ends after the first page', async () => {
    await setPaused(APP, false);
    expect(await store.batchTable.unpark(PAGE)).toHaveLength(2 * PAGE);
    const next = await under.connect();
    await next.suspensions.refresh();
    // Pushes that it accepts meanwhile do not wait for the earlier ones.
    const [accepted = ''] = await insertDue(APP, 2);
    expect(await claim([accepted])).toBe(1);
    expect(await next.batchTable.unpark(PAGE)).toHaveLength(2 * PAGE);
    expect(await next.batchTable.unpark(PAGE)).toHaveLength(COUNT - 4 * PAGE);
    expect(await next.batchTable.unpark(PAGE)).toHaveLength(0);
    expect(await countDueOf(APP)).toBe(COUNT + 1);
    expect(await claim(ids)).toBe(COUNT);
    expect(await count({ app: QUIET, 'work.at': PARKED_AT })).toBe(2);
  });

  test('loses nothing when it is paused again meanwhile, and two schedulers work at once', async () => {
    await setPaused(APP, false);
    await store.batchTable.unpark(PAGE);
    await setPaused(APP, true);
    expect(await claim(ids)).toBe(0);
    expect(await countDueOf(APP)).toBe(0);
    expect(await store.batchTable.unpark(PAGE)).toHaveLength(0);
    await setPaused(APP, false);
    // The retry that an operator requests changes nothing for those that were never tried.
    await store.batchTable.retryNow(APP, 'mqtt');
    const other = await under.connect();
    await other.suspensions.refresh();
    for (const both of [store, other]) await both.batchTable.unpark(1);
    await Promise.all([store, other].map(({ batchTable }) => batchTable.unpark(COUNT)));
    expect(await countDueOf(APP)).toBe(COUNT);
  });

  test('leaves another app its share of those that become due again', async () => {
    for (const app of [APP, QUIET]) await setPaused(app, false);
    expect((await store.batchTable.unpark(10)).length).toBeGreaterThan(2);
    expect([await countDueOf(QUIET), await countDueOf(APP)]).toEqual([2, 10]);
  });
});

test('scheduled pushes of a paused app are opened, and wait parked', async () => {
  await insertDocuments(under.db, 'apps', { _id: APP, account: ACCOUNT });
  await store.apps.pause(APP);
  await store.suspensions.refresh();
  await insertPush({ at: anHourAgo() }, { state: 'scheduled', dueAt: anHourAgo() });
  expect(await store.pushes.openDue()).toBe(1);
  const [due] = await store.batchTable.findDue(10);
  expect(await store.batchTable.claim(due?.id ?? '', 'r:1', LEASE_MS)).toBeUndefined();
  expect(await store.batchTable.findDue(10)).toEqual([]);
});
