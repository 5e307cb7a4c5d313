import { batchId, fallbackBatchId } from '@carillon/core/ids';
import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import { createBatch, createBatchDocument } from '../src/create-batches.ts';
import type { ReportedPush } from '../src/push-outcomes.ts';
import {
  FIRST_RECIPIENT,
  type RecipientCursor,
  type ReportedRecipient,
} from '../src/recipients.ts';
import {
  acknowledge,
  countOutcomes,
  deliver,
  expire,
  insertPush,
  newTokens,
  RETENTION_MS,
  SHAPES,
  type StoreUnderTest,
  startStore,
  type TestPush,
} from './store-under-test.ts';

const APP = 'a'.repeat(24);

let database: StoreUnderTest;
let store: StoreUnderTest['store'];
beforeAll(async () => {
  database = await startStore();
  store = database.store;
});
afterAll(() => database?.stop());

async function find({ id }: Pick<TestPush, 'id'>): Promise<ReportedPush> {
  const push = await store.pushOutcomes.find(APP, id);
  if (push === undefined) throw new Error(`there is no push ${id}`);
  return push;
}

/** Reads all pages, each with the push as it is then. */
async function readAll(
  push: Pick<TestPush, 'id'>,
  limit: number,
  outcome?: ReportedRecipient['outcome'],
): Promise<ReportedRecipient[]> {
  const recipients: ReportedRecipient[] = [];
  let from: RecipientCursor | undefined = FIRST_RECIPIENT;
  while (from !== undefined) {
    const page = await store.recipients.readPage(await find(push), from, limit, outcome);
    expect(page.recipients.length).toBeLessThanOrEqual(limit);
    recipients.push(...page.recipients);
    from = page.next;
  }
  return recipients;
}

/** Expects pages, single recipients and counts to agree, and returns the outcome of each recipient. */
async function readOutcomes(push: TestPush): Promise<Record<string, string>> {
  const recipients = await readAll(push, 3);
  expect(recipients.map(({ token }) => token).sort()).toEqual(push.tokens);
  const {
    outcomes,
    recipients: count,
    channels,
  } = await store.pushOutcomes.summarize(await find(push));
  expect(countOutcomes(recipients.map(({ outcome }) => outcome))).toEqual(outcomes);
  expect(count).toBe(push.tokens.length);
  for (const [channel, counts] of Object.entries(channels)) {
    const own = recipients.filter((recipient) => recipient.channel === channel);
    expect(countOutcomes(own.map(({ outcome }) => outcome))).toEqual(counts);
  }
  for (const outcome of Object.keys(outcomes) as ReportedRecipient['outcome'][])
    expect(await readAll(push, 2, outcome)).toEqual(
      recipients.filter((recipient) => recipient.outcome === outcome),
    );
  for (const recipient of recipients)
    expect(await store.recipients.findOne(await find(push), recipient.token)).toMatchObject(
      recipient,
    );
  return Object.fromEntries(recipients.map(({ token, outcome }) => [token, outcome]));
}

const complete = ({ id }: TestPush) => store.pushCompletion.completeIfDone(id, RETENTION_MS);

async function expectOutcomes(push: TestPush, ...outcomes: string[]): Promise<void> {
  const found = await readOutcomes(push);
  expect(push.tokens.map((token) => found[token])).toEqual(outcomes);
}

describe.each(SHAPES)('of a push with its recipients %s', (shape) => {
  const five = () => newTokens(5) as [string, string, string, string, string];

  test('before, during and after the delivery', async () => {
    const tokens = five();
    const push = await insertPush(database, tokens, { shape });
    await expectOutcomes(push, ...tokens.map(() => 'pending'));
    const [first, second, third, fourth] = tokens;
    await deliver(store, push, {
      [first]: OUTCOMES.inbox,
      [second]: OUTCOMES.gone,
      [third]: failureCode('inbox-full'),
      [fourth]: OUTCOMES.superseded,
    });
    await expectOutcomes(push, 'pending', 'gone', 'failed', 'superseded', 'delivered');
    const { reasons } = await store.pushOutcomes.summarize(await find(push));
    expect(reasons).toEqual({ 'inbox-full': 1 });
    await acknowledge(database, push, first);
    await complete(push);
    await expectOutcomes(push, 'delivered', 'gone', 'failed', 'superseded', 'delivered');
  });

  test.each(['expired', 'deleted'] as const)('that is %s, until it is removed', async (end) => {
    const tokens = five();
    const [first, second] = tokens;
    const push = await insertPush(database, tokens, { shape });
    await deliver(store, push, { [first]: OUTCOMES.inbox, [second]: OUTCOMES.inbox });
    await acknowledge(database, push, second);
    if (end === 'expired') await expire(database, push);
    else expect(await store.pushCompletion.markDeleted(APP, push.id)).toBe(true);
    await complete(push);
    await expectOutcomes(push, end, 'delivered', 'delivered', 'delivered', 'delivered');
    const past = new Date(Date.now() - 1_000);
    await database.pushes.updateOne({ _id: push.id }, { $set: { purgeAt: past } });
    expect(await store.pushOutcomes.find(APP, push.id)).toBeUndefined();
  });

  test('whose collapse key a newer push has', async () => {
    const tokens = five();
    const [first, second] = tokens;
    const collapse = `key-${first}`;
    const push = await insertPush(database, tokens, { shape, collapse });
    await deliver(store, push, { [first]: OUTCOMES.inbox, [second]: OUTCOMES.inbox });
    const newer = await insertPush(database, [first], { collapse });
    await deliver(store, newer, { [first]: OUTCOMES.inbox });
    await expectOutcomes(push, 'superseded', 'pending', 'delivered', 'delivered', 'delivered');
    await expire(database, push);
    await complete(push);
    await expectOutcomes(push, 'superseded', 'expired', 'delivered', 'delivered', 'delivered');
  });

  test('with a fallback: a recipient is listed once, with the channel of its outcome', async () => {
    const tokens = five();
    const [first] = tokens;
    const push = await insertPush(database, tokens, { shape });
    await deliver(store, push, { [first]: OUTCOMES.inbox });
    const work = createBatch('fcm', [first], 'closed', new Date());
    const outcomes = new Binary(Uint8Array.of(OUTCOMES.sent));
    await database.batches.insertOne({
      ...{ _id: fallbackBatchId(push.batchIds[0] ?? ''), push: push.id, app: APP },
      ...{ from: first, to: first, work: { ...work, fallback: true, outcomes } },
    });
    await expectOutcomes(push, 'pending', 'delivered', 'delivered', 'delivered', 'delivered');
    const attempts = [
      { channel: 'mqtt', outcome: 'pending' },
      { channel: 'fcm', outcome: 'sent' },
    ];
    const recipient = await store.recipients.findOne(await find(push), first);
    expect(recipient).toMatchObject({ channel: 'mqtt', attempts });
    await expire(database, push);
    await complete(push);
    await expectOutcomes(push, 'sent', 'delivered', 'delivered', 'delivered', 'delivered');
    const { channels } = await store.pushOutcomes.summarize(await find(push));
    expect(channels).toEqual({ mqtt: { delivered: 4 }, fcm: { sent: 1 } });
  });
});

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
