import { batchId } from '@carillon/core/ids';
import { createBatchDocument } from '@carillon/store/create-batches';
import { describe, expect, test } from '@jest/globals';
import {
  deliver,
  expire,
  insertPush,
  newTokens,
  RETENTION_MS,
  type TestPush,
} from '../../store/test/store-under-test.ts';
import { useStore } from '../../store/test/use-store.ts';
import type { ReportedPush } from '../src/push-outcomes.ts';
import { FIRST_RECIPIENT, type RecipientCursor } from '../src/recipients.ts';

const APP = 'a'.repeat(24);

const database = useStore();
const { store } = database;

async function find({ id }: Pick<TestPush, 'id'>): Promise<ReportedPush> {
  const push = await store.pushOutcomes.find(APP, id);
  if (push === undefined) throw new Error(`there is no push ${id}`);
  return push;
}

const complete = ({ id }: TestPush) => store.pushCompletion.completeIfDone(id, RETENTION_MS);

test('pages stay the same while topics are resolved and batches are processed', async () => {
  const [named = '', ...subscribers] = newTokens(9);
  const push = await insertPush(database, [named], { shape: 'in two batches' });
  const insertPage = async (sequence: number, tokens: readonly string[]) => {
    const owner = { _id: push.id, app: APP };
    const at = new Date(0);
    await database.batches.insertOne(
      createBatchDocument(owner, 'mqtt', tokens, sequence, 'ready', at),
    );
  };
  const setProgress = (next: number, done: boolean) =>
    database.pushes.updateOne(
      { _id: push.id },
      { $set: { 'fan.next': next, 'fan.done': done, devices: 9 } },
    );
  const readPage = async (from: RecipientCursor) =>
    store.recipients.readPage(await find(push), from, 4);

  await setProgress(1, false);
  const first = await readPage(FIRST_RECIPIENT);
  expect(first.recipients.map(({ token }) => token)).toEqual([named]);
  // A page of the topics is inserted unordered: its second channel comes first.
  await insertPage(2, subscribers.slice(0, 2));
  const second = await readPage(first.next ?? FIRST_RECIPIENT);
  expect(second.recipients).toEqual([]);
  await insertPage(1, subscribers.slice(2, 5));
  await setProgress(17, false);
  const third = await readPage(second.next ?? FIRST_RECIPIENT);
  expect(third.recipients).toHaveLength(4);
  await deliver(store, { ...push, batchIds: [batchId(push.id, 1), batchId(push.id, 2)] }, {});
  await insertPage(17, subscribers.slice(5));
  await setProgress(33, true);
  const fourth = await readPage(third.next ?? FIRST_RECIPIENT);
  expect(fourth.recipients).toHaveLength(4);
  expect(fourth.next).toBeUndefined();
  const all = [first, second, third, fourth].flatMap(({ recipients }) => recipients);
  expect(all.map(({ token }) => token).sort()).toEqual([named, ...subscribers]);
});

test('one recipient is read by index, not from all batches', async () => {
  const tokens = newTokens(60);
  const push = await insertPush(database, tokens.slice(0, 2), { shape: 'in two batches' });
  const owner = { _id: push.id, app: APP };
  await database.batches.insertMany(
    tokens
      .slice(2)
      .map((token, n) => createBatchDocument(owner, 'mqtt', [token], n + 2, 'ready', new Date(0))),
  );
  await database.db.command({ profile: 2 });
  const found = await store.recipients.findOne(await find(push), tokens[40] ?? '');
  await database.db.command({ profile: 0 });
  expect(found?.token).toBe(tokens[40]);
  const profile = await database.db
    .collection('system.profile')
    .find({ ns: /\.batches$/ })
    .toArray();
  expect(profile.map(({ docsExamined }) => docsExamined)).toEqual([1]);
});

describe('a list of pushes', () => {
  const list = (query: object) =>
    store.pushOutcomes.list({ app: APP, from: '', before: 'g', limit: 100, ...query });

  test('leaves out other apps and pushes that were never accepted', async () => {
    const push = await insertPush(database, newTokens(1));
    for (const fields of [{ state: 'accepting' }, { state: 'abandoned' }, { app: 'other' }]) {
      const { id } = await insertPush(database, newTokens(1));
      await database.pushes.updateOne({ _id: id }, { $set: fields as object });
    }
    const { pushes } = await list({ from: push.id });
    expect(pushes.map(({ _id }) => _id)).toEqual([push.id]);
  });

  test('is paged from the newest, and filtered by state', async () => {
    const before = await insertPush(database, newTokens(1));
    const made: TestPush[] = [];
    for (let n = 0; n < 5; n += 1) made.push(await insertPush(database, newTokens(1)));
    const [expiring, deleting] = made as [TestPush, TestPush];
    await expire(database, expiring);
    await complete(expiring);
    await store.pushCompletion.markDeleted(APP, deleting.id);
    const ids: string[] = [];
    let next: string | undefined = 'g';
    while (next !== undefined && next > before.id) {
      const page = await list({ before: next, from: made[0]?.id, limit: 2 });
      ids.push(...page.pushes.map(({ _id }) => _id));
      next = page.next;
    }
    expect(ids).toEqual(made.map(({ id }) => id).reverse());
    const idsIn = async (state: string) =>
      (await list({ from: made[0]?.id, state })).pushes.map(({ _id }) => _id);
    expect(await idsIn('expired')).toEqual([expiring.id]);
    expect(await idsIn('deleted')).toEqual([deleting.id]);
    expect(await idsIn('open')).toHaveLength(3);
  });
});
