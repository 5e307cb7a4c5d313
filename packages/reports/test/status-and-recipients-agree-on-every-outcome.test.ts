import { fallbackBatchId, newPushId } from '@carillon/core/ids';
import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import { createBatch, createBatchDocument } from '@carillon/store/create-batches';
import { iterateBatches } from '@carillon/store/final-outcomes';
import { describe, expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import {
  acknowledge,
  countOutcomes,
  deliver,
  expire,
  insertPush,
  newTokens,
  RETENTION_MS,
  readOutcomes,
  SHAPES,
  type Shape,
  type TestPush,
} from '../../store/test/store-under-test.ts';
import { useStore } from '../../store/test/use-store.ts';
import type { ReportedPush } from '../src/push-outcomes.ts';
import {
  FIRST_RECIPIENT,
  type RecipientCursor,
  type ReportedRecipient,
} from '../src/recipients.ts';

const APP = 'a'.repeat(24);

const database = useStore();
const { store } = database;

/** Checks that counts and single recipients report these outcomes, sorted by token, and the pages of the API the same. */
async function expectOutcomes(push: TestPush, ...expected: string[]): Promise<void> {
  expect(await readOutcomes(store, push)).toEqual({
    outcomes: expected,
    counts: countOutcomes(expected),
  });
  const inPages = await readPagedOutcomes(push);
  expect(push.tokens.map((token) => inPages[token])).toEqual(
    expected.map((outcome) => (outcome === 'inbox' ? 'pending' : outcome)),
  );
}

async function find({ id }: TestPush): Promise<ReportedPush> {
  const push = await store.pushOutcomes.find(APP, id);
  if (push === undefined) throw new Error(`there is no push ${id}`);
  return push;
}

/** Reads all pages, each with the push as it is then. */
async function readPages(
  push: TestPush,
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
async function readPagedOutcomes(push: TestPush): Promise<Record<string, string>> {
  const recipients = await readPages(push, 3);
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
    expect(await readPages(push, 2, outcome)).toEqual(
      recipients.filter((recipient) => recipient.outcome === outcome),
    );
  for (const recipient of recipients)
    expect(await store.recipients.findOne(await find(push), recipient.token)).toMatchObject(
      recipient,
    );
  return Object.fromEntries(recipients.map(({ token, outcome }) => [token, outcome]));
}

const complete = (push: TestPush) => store.pushCompletion.completeIfDone(push.id, RETENTION_MS);

async function deletePush(push: TestPush): Promise<void> {
  const found = await database.pushes.findOne({ _id: push.id });
  expect(await store.pushCompletion.markDeleted(found?.app ?? '', push.id)).toBe(true);
  await complete(push);
}

/** Sends a newer push of the collapse key to some devices of a push. */
async function supersede(push: TestPush, ...tokens: string[]): Promise<TestPush> {
  const newer = await insertPush(database, tokens, { collapse: push.collapse ?? '' });
  await deliver(store, newer, Object.fromEntries(tokens.map((token) => [token, OUTCOMES.inbox])));
  return newer;
}

async function deleteDevice(token: string): Promise<void> {
  const devices = database.db.collection<{ _id: string; deletedAt: Date }>('devices');
  await devices.insertOne({ _id: token, deletedAt: new Date() });
  await store.deletedDevices.clearLeftovers('app', token);
}

/** Reads whether a push has ended and no inbox row of it is left. */
async function isOver({ id }: TestPush): Promise<boolean> {
  const push = await database.pushes.findOne({ _id: id });
  const rows = await database.inbox.countDocuments({ push: id });
  return push?.counts !== undefined && push.ending === undefined && rows === 0;
}

describe.each(SHAPES)('recipients %s:', (shape: Shape) => {
  const four = () => newTokens(4) as [string, string, string, string];

  test('outcomes of the settlement stay when the push is finished', async () => {
    const tokens = newTokens(5);
    const push = await insertPush(database, tokens, { shape });
    const codes = [
      ...[OUTCOMES.gone, failureCode('payload-too-large'), OUTCOMES.sent, OUTCOMES.superseded],
    ];
    const settled = codes.map((code, n) => [tokens[n], code]);
    await deliver(store, push, Object.fromEntries(settled));
    await expectOutcomes(push, 'gone', 'failed', 'sent', 'superseded', 'delivered');
    const { reasons } = await store.pushOutcomes.summarize(await find(push));
    expect(reasons).toEqual({ 'payload-too-large': 1 });
    const statusOf = (token = '') => store.deliveryStatus.statusOfRecipient(push.id, token);
    expect(await statusOf(tokens[1])).toMatchObject({ reason: 'payload-too-large' });
    expect(await statusOf('nobody')).toBeUndefined();
    await complete(push);
    await expectOutcomes(push, 'gone', 'failed', 'sent', 'superseded', 'delivered');
    expect(await isOver(push)).toBe(true);
  });

  test('a recipient that no worker has tried is pending, and expires', async () => {
    const push = await insertPush(database, four(), { shape });
    await expectOutcomes(push, 'pending', 'pending', 'pending', 'pending');
    await expire(database, push);
    await complete(push);
    await expectOutcomes(push, 'expired', 'expired', 'expired', 'expired');
  });

  test('a receipt ends a recipient in the inbox as delivered', async () => {
    const tokens = four();
    const [first, second] = tokens;
    const push = await insertPush(database, tokens, { shape });
    await deliver(store, push, { [first]: OUTCOMES.inbox, [second]: OUTCOMES.inbox });
    await expectOutcomes(push, 'inbox', 'inbox', 'delivered', 'delivered');
    await acknowledge(database, push, first);
    await complete(push);
    await expectOutcomes(push, 'delivered', 'inbox', 'delivered', 'delivered');
    await acknowledge(database, push, second);
    await complete(push);
    await expectOutcomes(push, 'delivered', 'delivered', 'delivered', 'delivered');
    expect(await isOver(push)).toBe(true);
  });

  test.each([
    [
      'expiry',
      'expired',
      async (push: TestPush) => expire(database, push).then(() => complete(push)),
    ],
    ['deletion', 'deleted', deletePush],
  ] as const)(
    '%s ends recipients in the inbox, and a later receipt changes nothing',
    async (_name, outcome, end) => {
      const tokens = four();
      const [first, second, third] = tokens;
      const push = await insertPush(database, tokens, { shape });
      const inInbox = [first, second, third].map((token) => [token, OUTCOMES.inbox]);
      await deliver(store, push, Object.fromEntries(inInbox));
      await acknowledge(database, push, second);
      await end(push);
      await expectOutcomes(push, outcome, 'delivered', outcome, 'delivered');
      await acknowledge(database, push, first);
      await complete(push);
      await expectOutcomes(push, outcome, 'delivered', outcome, 'delivered');
      expect(await isOver(push)).toBe(true);
    },
  );

  test('a deleted push keeps the outcomes that it was finished with', async () => {
    const push = await insertPush(database, four(), { shape });
    await deliver(store, push, {});
    await complete(push);
    await deletePush(push);
    await expectOutcomes(push, 'delivered', 'delivered', 'delivered', 'delivered');
  });

  test('a sent recipient that acknowledges before the end is delivered, after the end it stays sent', async () => {
    const tokens = four();
    const [first, second] = tokens;
    const push = await insertPush(database, tokens, { shape });
    const outcomes = { [first]: OUTCOMES.sent, [second]: OUTCOMES.sent };
    await deliver(store, push, outcomes, { lateReceipts: true });
    await acknowledge(database, push, first);
    await expectOutcomes(push, 'delivered', 'sent', 'delivered', 'delivered');
    await complete(push);
    await acknowledge(database, push, second);
    await expectOutcomes(push, 'delivered', 'sent', 'delivered', 'delivered');
  });

  test('a recipient of a deleted device is gone, and a receipt after the end changes nothing', async () => {
    const tokens = four();
    const [first, second] = tokens;
    const push = await insertPush(database, tokens, { shape });
    await deliver(store, push, { [first]: OUTCOMES.inbox, [second]: OUTCOMES.inbox });
    await deleteDevice(first);
    await expectOutcomes(push, 'gone', 'inbox', 'delivered', 'delivered');
    await deleteDevice(second);
    await complete(push);
    await expectOutcomes(push, 'gone', 'gone', 'delivered', 'delivered');
    await acknowledge(database, push, first);
    await expectOutcomes(push, 'gone', 'gone', 'delivered', 'delivered');
    expect(await isOver(push)).toBe(true);
  });

  test('a push that the fallback has sent ends as sent when it expires', async () => {
    const tokens = four();
    const [first, second] = tokens;
    const push = await insertPush(database, tokens, { shape });
    await deliver(store, push, { [first]: OUTCOMES.inbox, [second]: OUTCOMES.inbox });
    const [of = ''] = push.batchIds;
    const outcomes = new Binary(Uint8Array.of(OUTCOMES.gone, OUTCOMES.sent));
    const work = createBatch('fcm', [first, second], 'closed', new Date());
    await database.batches.insertOne({
      ...{ _id: fallbackBatchId(of), push: push.id, app: APP, from: first, to: second },
      work: { ...work, fallback: true, outcomes },
    });
    await expectOutcomes(push, 'inbox', 'inbox', 'delivered', 'delivered');
    const attempts = [
      { channel: 'mqtt', outcome: 'pending' },
      { channel: 'fcm', outcome: 'sent' },
    ];
    const recipient = await store.recipients.findOne(await find(push), second);
    expect(recipient).toMatchObject({ channel: 'mqtt', attempts });
    await expire(database, push);
    await complete(push);
    await expectOutcomes(push, 'expired', 'sent', 'delivered', 'delivered');
    const { channels } = await store.pushOutcomes.summarize(await find(push));
    expect(channels).toEqual({ mqtt: { delivered: 2, expired: 1 }, fcm: { sent: 1 } });
  });

  test.each([
    ['is delivered to all others', ['superseded', 'delivered'], 'acknowledge'],
    ['expires', ['superseded', 'expired'], 'expire'],
    ['is deleted', ['superseded', 'deleted'], 'delete'],
  ] as const)('superseded recipients stay so when the push %s', async (_name, ended, end) => {
    const [first, second, third, fourth] = four();
    const collapse = `${first}-${shape.length}`;
    const push = await insertPush(database, [first, second, third, fourth], { shape, collapse });
    const inInbox = [first, second].map((token) => [token, OUTCOMES.inbox]);
    await deliver(store, push, Object.fromEntries(inInbox));
    const newer = await supersede(push, first);
    await expectOutcomes(push, 'superseded', 'inbox', 'delivered', 'delivered');
    if (end === 'acknowledge') await acknowledge(database, push, second);
    if (end === 'expire') await expire(database, push);
    await (end === 'delete' ? deletePush(push) : complete(push));
    await expectOutcomes(push, ...ended, 'delivered', 'delivered');
    await acknowledge(database, push, first);
    await expectOutcomes(push, ...ended, 'delivered', 'delivered');
    expect(await isOver(push)).toBe(true);
    await expectOutcomes(newer, 'inbox');
  });

  test('a row of an open batch does not hide that another recipient is superseded', async () => {
    const [first, second, third, fourth] = four();
    const collapse = `open-${first}`;
    const push = await insertPush(database, [first, second, third, fourth], { shape, collapse });
    const [work = '', other] = push.batchIds;
    await deliver(store, { ...push, batchIds: [work] }, { [first]: OUTCOMES.inbox });
    if (other !== undefined) {
      const row = { push: push.id, work: other, position: 0, sent: false, collapse };
      await store.inbox.enqueue([{ ...row, token: third }]);
    }
    await supersede(push, first);
    const rest = other === undefined ? 'delivered' : 'pending';
    await expectOutcomes(push, 'superseded', 'delivered', rest, rest);
  });

  test('a push whose retention has ended is unknown to both, also while it is being removed', async () => {
    const push = await insertPush(database, four(), { shape });
    await deliver(store, push, {});
    await complete(push);
    await expectOutcomes(push, 'delivered', 'delivered', 'delivered', 'delivered');
    await database.pushes.updateOne(
      { _id: push.id },
      { $set: { purgeAt: new Date(Date.now() - 1_000) } },
    );
    const unknown = { outcomes: push.tokens.map(() => undefined), counts: undefined };
    expect(await readOutcomes(store, push)).toEqual(unknown);
    expect(await store.pushOutcomes.find(APP, push.id)).toBeUndefined();
    await database.batches.deleteMany({ push: push.id });
    expect(await readOutcomes(store, push)).toEqual(unknown);
    await store.retention.purge(10, store.outbox.keepUnreported);
    expect(await readOutcomes(store, push)).toEqual(unknown);
    expect(await database.pushes.findOne({ _id: push.id })).toBeNull();
  });
});

test('no batch is missed when batches are closed while they are read', async () => {
  const push = { _id: newPushId(Date.now()) };
  const tokens = newTokens(300);
  const documents = tokens.map((token, n) =>
    createBatchDocument({ ...push, app: 'app' }, 'mqtt', [token], n, 'ready', new Date(0)),
  );
  await database.batches.insertMany(documents);
  const ids: string[] = [];
  for await (const { id } of iterateBatches(database, push)) {
    // Closing moves the entries of an index on the state to before those that are read.
    if (ids.length === 0)
      await database.batches.updateMany({ push: push._id }, { $set: { 'work.state': 'closed' } });
    ids.push(id);
  }
  expect(ids).toEqual(documents.map(({ _id }) => _id));
});
