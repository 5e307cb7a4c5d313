import { fallbackBatchId } from '@carillon/core/ids';
import { failureCode, failureMask, OUTCOMES } from '@carillon/core/outcomes';
import { buildSettlementUpdate } from '@carillon/store/batch-table';
import type { ProviderErrorEntry } from '@carillon/store/documents';
import { beforeEach, describe, expect, test } from '@jest/globals';
import type { Document } from 'mongodb';
import {
  APP,
  acknowledge,
  deliver,
  insertPush,
  LEASE_MS,
  newTokens,
  profile,
  SHAPES,
  type TestPush,
} from '../../store/test/store-under-test.ts';
import { useStore } from '../../store/test/use-store.ts';
import type { FailureQuery } from '../src/failures.ts';

const TOO_LARGE = failureCode('payload-too-large');
const REJECTED = failureCode('rejected-by-provider');
const SETTLEMENT = { id: 'p', claim: 'c', latenciesMs: new Uint32Array(2) };

const database = useStore();
const { store } = database;
beforeEach(() => database.clear());

const list = (query: Partial<FailureQuery> = {}) =>
  store.failures.list({ app: APP, limit: 100, ...query });

/** Reads all pages of a list. */
async function listAll(query: Partial<FailureQuery>) {
  const pages: string[][] = [];
  let cursor: FailureQuery['cursor'];
  do {
    const page = await list({ ...query, cursor });
    pages.push(page.batches.map(({ id }) => id));
    cursor = page.next;
  } while (cursor !== undefined);
  return pages;
}

/** Inserts pushes to two devices, of which the first has failed. */
async function insertFailed(count: number, code = TOO_LARGE): Promise<TestPush[]> {
  const pushes: TestPush[] = [];
  for (let n = 0; n < count; n += 1) {
    const tokens = newTokens(2);
    const push = await insertPush(database, tokens);
    await deliver(store, push, { [tokens[0] ?? '']: code });
    pushes.push(push);
  }
  return pushes;
}

/** Saves the progress of a push's only batch without settling it. */
async function saveProgress(
  { id }: TestPush,
  outcomes: number[],
  words: ProviderErrorEntry[] = [],
) {
  const { batchTable } = store;
  const claimed = await batchTable.claim(id, 'reply', LEASE_MS);
  const claim = claimed?.claim ?? '';
  const codes = Uint8Array.from(outcomes);
  const progress = { ...SETTLEMENT, id, claim, outcomes: codes, deferred: [], words };
  expect(await batchTable.saveOutcomes(progress)).toBe(true);
  await batchTable.releaseClaim({ id, claim }, { delayMs: 0 });
}

describe.each(SHAPES)('recipients %s:', (shape) => {
  test('a settlement with a failed recipient lists its batch, with the reasons', async () => {
    const tokens = newTokens(4);
    const push = await insertPush(database, tokens, { shape });
    const before = Date.now();
    await deliver(store, push, {
      [tokens[0] ?? '']: TOO_LARGE,
      [tokens[1] ?? '']: REJECTED,
    });
    const { batches, next } = await list();
    expect(next).toBeUndefined();
    expect(batches).toMatchObject([
      { id: push.batchIds[0], push: push.id, channel: 'mqtt', failed: 2, redriven: 0 },
    ]);
    expect(batches[0]?.reasons).toEqual([
      { reason: 'payload-too-large', count: 1 },
      { reason: 'rejected-by-provider', count: 1 },
    ]);
    expect(batches[0]?.failedAt.getTime()).toBeGreaterThanOrEqual(before);
  });
});

test('a batch that still has recipients to retry is listed as soon as its outcomes are saved', async () => {
  const push = await insertPush(database, newTokens(3));
  await saveProgress(
    push,
    [REJECTED, OUTCOMES.pending, OUTCOMES.pending],
    [['$set: 400 $where', [0]]],
  );
  const [listed] = (await list()).batches;
  expect(listed).toMatchObject({ failed: 1, reasons: [{ text: '$set: 400 $where', count: 1 }] });
  await deliver(store, push, {
    [push.tokens[0] ?? '']: REJECTED,
    [push.tokens[1] ?? '']: TOO_LARGE,
  });
  const [settled] = (await list()).batches;
  expect(settled).toMatchObject({ failed: 2, failedAt: listed?.failedAt });
});

test('a receipt after the failure removes the recipient from the count, the last one the batch from the list', async () => {
  const [failed = '', other = ''] = newTokens(2);
  const push = await insertPush(database, [failed, other]);
  await deliver(store, push, { [failed]: REJECTED, [other]: REJECTED }, { lateReceipts: true });
  await acknowledge(database, push, failed);
  expect((await list()).batches).toMatchObject([{ failed: 1 }]);
  await acknowledge(database, push, other);
  expect((await list()).batches).toEqual([]);
});

test('a fallback is not listed: its recipients have their outcome in another batch', async () => {
  const push = await insertPush(database, newTokens(2), { shape: 'in two batches' });
  const [first = ''] = push.batchIds;
  const { _id, ...batch } = (await database.batches.findOne({ _id: first })) ?? { _id: '' };
  const fallback = { ...batch, _id: fallbackBatchId(_id) };
  await database.batches.insertOne(fallback as Parameters<typeof database.batches.insertOne>[0]);
  const onlyFallback = { ...push, batchIds: [fallback._id] };
  await deliver(store, onlyFallback, { [push.tokens[0] ?? '']: TOO_LARGE });
  expect((await database.batches.findOne({ _id: fallback._id }))?.work.state).toBe('closed');
  expect((await list()).batches).toEqual([]);
});

test('a recipient whose inbox was full is listed when the fallback has not reached it either', async () => {
  const push = await insertPush(database, newTokens(2));
  const [refused = '', sent = ''] = push.tokens;
  await deliver(store, push, { [refused]: OUTCOMES.offered, [sent]: OUTCOMES.offered });
  expect((await list()).batches).toEqual([]);
  const full = { token: refused, code: failureCode('inbox-full') };
  const ended = { sent: [sent], done: [], rowIds: [], refused: [full] };
  const answers = { app: APP, push: push.id, ...ended };
  await store.receipts.recordFallback(push.batchIds[0] ?? '', answers);
  const [listed] = (await list()).batches;
  const reasons = [{ reason: 'inbox-full', count: 1 }];
  expect(listed).toMatchObject({ failed: 1, reasons });
});

test('a settlement without a failure writes no more than before', () => {
  const fieldsOf = (...lists: number[][]) => {
    const settlements = lists.map((codes) => ({ ...SETTLEMENT, outcomes: Uint8Array.from(codes) }));
    const { update } = buildSettlementUpdate(settlements);
    // The last stage that sets fields: lists of several settlements have stages of their own.
    if (Array.isArray(update)) return Object.keys(update.findLast(({ $set }) => $set)?.$set);
    return Object.values(update).flatMap((fields) => Object.keys(fields));
  };
  const withoutFailure = [
    'work.state',
    'work.outcomes',
    'work.counts',
    'work.ms',
    'work.before',
    'work.closedAt',
  ];
  expect(fieldsOf([OUTCOMES.sent, OUTCOMES.gone])).toEqual(withoutFailure);
  expect(fieldsOf([OUTCOMES.sent], [OUTCOMES.gone])).toEqual(withoutFailure);
  expect(fieldsOf([OUTCOMES.sent, TOO_LARGE]).sort()).toEqual(
    [...withoutFailure, 'work.failedAt', 'work.failures'].sort(),
  );
});

test('batches that are settled together are marked only if they have a failure', async () => {
  const pushes = await Promise.all(
    Array.from({ length: 6 }, () => insertPush(database, newTokens(1))),
  );
  await Promise.all(
    pushes.map((push, n) =>
      deliver(store, push, { [push.tokens[0] ?? '']: n % 2 === 0 ? REJECTED : 1 }),
    ),
  );
  const stored = await database.pushes.find().sort({ _id: 1 }).toArray();
  expect(stored.map(({ work }) => work?.failures)).toEqual(
    pushes.map((_, n) => (n % 2 === 0 ? failureMask(Uint8Array.of(REJECTED)) : undefined)),
  );
  expect(stored.filter(({ work }) => work !== undefined && 'failedAt' in work)).toHaveLength(3);
});

test('pages are disjoint, in order, and end', async () => {
  const pushes = await insertFailed(7);
  const pages = await listAll({ limit: 3 });
  expect(pages.map((page) => page.length)).toEqual([3, 3, 1]);
  expect(pages.flat()).toEqual(pushes.map(({ id }) => id).reverse());
  expect(await listAll({ limit: 7 })).toHaveLength(1);
});

test('failures of one statement, which have one time, are on one page each', async () => {
  await insertFailed(5);
  await database.pushes.updateMany({}, { $set: { 'work.failedAt': new Date(0) } });
  const pages = await listAll({ limit: 2 });
  expect(new Set(pages.flat()).size).toBe(5);
  expect(pages.flat()).toHaveLength(5);
});

test('a list is limited to a channel, a reason, a time and an app', async () => {
  const [older] = await insertFailed(1, TOO_LARGE);
  const [newer] = await insertFailed(1, REJECTED);
  const ids = async (query: Partial<FailureQuery>) =>
    (await list(query)).batches.map(({ id }) => id);
  expect(await ids({ reason: 'payload-too-large' })).toEqual([older?.id]);
  expect(await ids({ reason: 'rejected-by-provider', channel: 'mqtt' })).toEqual([newer?.id]);
  expect(await ids({ channel: 'apns' })).toEqual([]);
  expect(await ids({ app: 'b'.repeat(24) })).toEqual([]);
  const split = new Date(((await list()).batches[0]?.failedAt.getTime() ?? 0) - 1);
  await database.pushes.updateOne(
    { _id: older?.id ?? '' },
    { $set: { 'work.failedAt': new Date(1) } },
  );
  expect(await ids({ from: split })).toEqual([newer?.id]);
  expect(await ids({ to: split })).toEqual([older?.id]);
});

test('a page of a rare reason ends after 10,000 marks and returns where to continue', async () => {
  const [rare] = await insertFailed(1, REJECTED);
  const [template] = await database.pushes.find().toArray();
  expect(template?._id).toBe(rare?.id);
  const failures = failureMask(Uint8Array.of(TOO_LARGE));
  const work = { ...template?.work, failures, failedAt: new Date(Date.now() + 60_000) };
  const copies = Array.from({ length: 10_001 }, (_, n) => ({ ...template, _id: `copy${n}`, work }));
  await database.pushes.insertMany(copies as Parameters<typeof database.pushes.insertMany>[0]);
  const first = await list({ reason: 'rejected-by-provider' });
  expect(first.batches).toEqual([]);
  const second = await list({ reason: 'rejected-by-provider', cursor: first.next });
  expect(second.batches.map(({ id }) => id)).toEqual([rare?.id]);
  expect(second.next).toBeUndefined();
});

test('pages are read from an index alone, besides the documents that they list', async () => {
  await insertFailed(12);
  const twoPages = async () => {
    await list({ limit: 3 });
    await list({ limit: 3, channel: 'mqtt', reason: 'payload-too-large' });
  };
  const queries = await profile(database, twoPages, { op: 'query', ns: /\.(pushes|batches)$/ });
  const isScan = ({ command }: Document) => 'app' in (command.hint ?? {});
  const [scans, reads] = [queries.filter(isScan), queries.filter((one) => !isScan(one))];
  expect(scans.length).toBeGreaterThanOrEqual(4);
  expect(scans.map(({ docsExamined, hasSortStage }) => [docsExamined, hasSortStage])).toEqual(
    scans.map(() => [0, undefined]),
  );
  expect(reads.map(({ docsExamined }) => docsExamined)).toEqual([3, 3]);
});

test('a query for one recipient examines one batch of many', async () => {
  const tokens = newTokens(2_000);
  const push = await insertPush(database, tokens, { shape: 'in two batches' });
  const find = () => store.deliveryStatus.statusOfRecipient(push.id, tokens[1_500] ?? '');
  const [query] = await profile(database, find, { op: 'query', ns: /\.batches$/ });
  expect(query).toMatchObject({ docsExamined: 1, nreturned: 1 });
});

test('the pushes of a re-drive are read in order, each once, without those marked later', async () => {
  const single = await insertFailed(2);
  const tokens = newTokens(4);
  const push = await insertPush(database, tokens, { shape: 'in two batches' });
  await deliver(store, push, Object.fromEntries(tokens.map((one) => [one, REJECTED])));
  const to = new Date(Date.now() + 1_000);
  async function read(filter = {}, after?: string) {
    const found: string[] = [];
    const marked = store.failedRecipients.iteratePushes(APP, { to, ...filter }, after);
    for await (const id of marked) found.push(id);
    return found;
  }
  const ids = [...single.map(({ id }) => id), push.id];
  expect(await read()).toEqual([...ids].sort());
  expect(await read({}, [...ids].sort()[1])).toEqual([...ids].sort().slice(2));
  expect(await read({ reason: 'rejected-by-provider' })).toEqual([push.id]);
  expect(await read({ to: new Date(1) })).toEqual([]);
});
