import { batchId, fallbackBatchId, newPushId } from '@carillon/core/ids';
import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import { createBatchDocument, createEmbeddedBatch } from '@carillon/store/create-batches';
import { iterateBatches } from '@carillon/store/final-outcomes';
import { describe, expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import {
  APP,
  acknowledge,
  complete,
  countOutcomes,
  deliver,
  deliverToInboxes,
  expire,
  findReported,
  insertPush,
  markDeleted,
  newTokens,
  profile,
  readOutcomes,
  SHAPES,
  type Shape,
  type TestPush,
} from '../../store/test/store-under-test.ts';
import { useStore } from '../../store/test/use-store.ts';
import {
  FIRST_RECIPIENT,
  type RecipientCursor,
  type ReportedRecipient,
} from '../src/recipients.ts';

const database = useStore();
const { store } = database;

/**
 * Checks that counts, single recipients and the lists of their devices report these outcomes, sorted by token, and the
 * pages of the API the same.
 */
async function expectOutcomes(push: TestPush, ...expected: string[]): Promise<void> {
  expect(await readOutcomes(store, push)).toEqual({
    outcomes: expected,
    counts: countOutcomes(expected),
  });
  for (const [n, token] of push.tokens.entries()) {
    const { pushes } = await store.pushesOfDevice.list({ app: APP, token, before: 'g', limit: 9 });
    const listed = pushes.find((one) => one.push._id === push.id);
    expect(listed?.status).toEqual(await store.deliveryStatus.statusOfRecipient(push.id, token));
    expect(listed?.status.outcome).toBe(expected[n]);
    const found = await findReported(store, push);
    expect(listed?.recipient).toEqual(await store.recipients.findOne(found, token));
  }
  const inPages = await readPagedOutcomes(push);
  expect(push.tokens.map((token) => inPages[token])).toEqual(
    expected.map((outcome) => (outcome === 'inbox' ? 'pending' : outcome)),
  );
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
    const found = await findReported(store, push);
    const page = await store.recipients.readPage(found, from, limit, outcome);
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
  const found = await findReported(store, push);
  const { outcomes, ...summary } = await store.pushOutcomes.summarize(found);
  expect(countOutcomes(recipients.map(({ outcome }) => outcome))).toEqual(outcomes);
  expect(summary.recipients).toBe(push.tokens.length);
  for (const [channel, counts] of Object.entries(summary.channels)) {
    const own = recipients.filter((recipient) => recipient.channel === channel);
    expect(countOutcomes(own.map(({ outcome }) => outcome))).toEqual(counts);
  }
  for (const outcome of Object.keys(outcomes) as ReportedRecipient['outcome'][])
    expect(await readPages(push, 2, outcome)).toEqual(
      recipients.filter((recipient) => recipient.outcome === outcome),
    );
  for (const recipient of recipients)
    expect(await store.recipients.findOne(found, recipient.token)).toMatchObject(recipient);
  return Object.fromEntries(recipients.map(({ token, outcome }) => [token, outcome]));
}

async function deletePush(push: TestPush): Promise<void> {
  expect(await markDeleted(store, push)).toBe(true);
  await complete(store, push);
}

async function expireAndComplete(push: TestPush): Promise<void> {
  await expire(database, push);
  await complete(store, push);
}

/** Sends a newer push of the collapse key to some devices of a push. */
async function supersede(push: TestPush, ...tokens: string[]): Promise<TestPush> {
  const newer = await insertPush(database, tokens, { collapse: push.collapse ?? '' });
  await deliverToInboxes(store, newer);
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
  type Four = [TestPush, string, string, string, string];
  const insertFour = async (collapse?: string) => {
    const push = await insertPush(database, newTokens(4), { shape, ...(collapse && { collapse }) });
    return [push, ...push.tokens] as Four;
  };

  test('outcomes of the settlement stay when the push is finished', async () => {
    const tokens = newTokens(5);
    const push = await insertPush(database, tokens, { shape });
    const { gone, sent, superseded } = OUTCOMES;
    const codes = [gone, failureCode('payload-too-large'), sent, superseded];
    const settled = codes.map((code, n) => [tokens[n], code]);
    await deliver(store, push, Object.fromEntries(settled));
    await expectOutcomes(push, 'gone', 'failed', 'sent', 'superseded', 'delivered');
    const { reasons } = await store.pushOutcomes.summarize(await findReported(store, push));
    expect(reasons).toEqual({ 'payload-too-large': 1 });
    const statusOf = (token = '') => store.deliveryStatus.statusOfRecipient(push.id, token);
    expect(await statusOf(tokens[1])).toMatchObject({ reason: 'payload-too-large' });
    expect(await statusOf('nobody')).toBeUndefined();
    await complete(store, push);
    await expectOutcomes(push, 'gone', 'failed', 'sent', 'superseded', 'delivered');
    expect(await isOver(push)).toBe(true);
  });

  test('a recipient that no worker has tried is pending, and expires', async () => {
    const [push] = await insertFour();
    await expectOutcomes(push, 'pending', 'pending', 'pending', 'pending');
    await expireAndComplete(push);
    await expectOutcomes(push, 'expired', 'expired', 'expired', 'expired');
  });

  test('a receipt ends a recipient in the inbox as delivered', async () => {
    const [push, first, second] = await insertFour();
    await deliver(store, push, { [first]: OUTCOMES.inbox, [second]: OUTCOMES.inbox });
    await expectOutcomes(push, 'inbox', 'inbox', 'delivered', 'delivered');
    await acknowledge(database, push, first);
    await complete(store, push);
    await expectOutcomes(push, 'delivered', 'inbox', 'delivered', 'delivered');
    await acknowledge(database, push, second);
    await complete(store, push);
    await expectOutcomes(push, 'delivered', 'delivered', 'delivered', 'delivered');
    expect(await isOver(push)).toBe(true);
  });

  test.each([
    ['expiry', 'expired', expireAndComplete],
    ['deletion', 'deleted', deletePush],
  ] as const)(
    '%s ends recipients in the inbox, and a later receipt changes nothing',
    async (_name, outcome, end) => {
      const [push, first, second, , fourth] = await insertFour();
      await deliverToInboxes(store, push, fourth);
      await acknowledge(database, push, second);
      await end(push);
      await expectOutcomes(push, outcome, 'delivered', outcome, 'delivered');
      await acknowledge(database, push, first);
      await complete(store, push);
      await expectOutcomes(push, outcome, 'delivered', outcome, 'delivered');
      expect(await isOver(push)).toBe(true);
    },
  );

  test('a deleted push keeps the outcomes that it was finished with', async () => {
    const [push] = await insertFour();
    await deliver(store, push, {});
    await complete(store, push);
    await deletePush(push);
    await expectOutcomes(push, 'delivered', 'delivered', 'delivered', 'delivered');
  });

  test('a sent recipient that acknowledges before the end is delivered, after the end it stays sent', async () => {
    const [push, first, second] = await insertFour();
    const outcomes = { [first]: OUTCOMES.sent, [second]: OUTCOMES.sent };
    await deliver(store, push, outcomes, { lateReceipts: true });
    await acknowledge(database, push, first);
    await expectOutcomes(push, 'delivered', 'sent', 'delivered', 'delivered');
    await complete(store, push);
    await acknowledge(database, push, second);
    await expectOutcomes(push, 'delivered', 'sent', 'delivered', 'delivered');
  });

  test('a recipient of a deleted device is gone, and a receipt after the end changes nothing', async () => {
    const [push, first, second] = await insertFour();
    await deliver(store, push, { [first]: OUTCOMES.inbox, [second]: OUTCOMES.inbox });
    await deleteDevice(first);
    await expectOutcomes(push, 'gone', 'inbox', 'delivered', 'delivered');
    await deleteDevice(second);
    await complete(store, push);
    await expectOutcomes(push, 'gone', 'gone', 'delivered', 'delivered');
    await acknowledge(database, push, first);
    await expectOutcomes(push, 'gone', 'gone', 'delivered', 'delivered');
    expect(await isOver(push)).toBe(true);
  });

  test('a push that the fallback has sent is sent at once, and when it expires', async () => {
    const [push, first, second] = await insertFour();
    await deliver(store, push, { [first]: OUTCOMES.inbox, [second]: OUTCOMES.inbox });
    const [of = ''] = push.batchIds;
    const outcomes = new Binary(Uint8Array.of(OUTCOMES.gone, OUTCOMES.sent));
    const work = createEmbeddedBatch('fcm', [first, second], 'closed', new Date()).work;
    await database.batches.insertOne({
      ...{ _id: fallbackBatchId(of), push: push.id, app: APP, from: first, to: second },
      work: { ...work, fallback: true, outcomes },
    });
    await expectOutcomes(push, 'inbox', 'inbox', 'delivered', 'delivered');
    const ended = { sent: [second], done: [], rowIds: [], refused: [] };
    const answers = { app: APP, push: push.id, ...ended };
    await store.receipts.recordFallback(of, answers);
    await expectOutcomes(push, 'inbox', 'sent', 'delivered', 'delivered');
    const recipient = await store.recipients.findOne(await findReported(store, push), second);
    const attempts = [{ channel: 'mqtt' }, { channel: 'fcm', outcome: 'sent' }];
    expect(recipient).toMatchObject({ channel: 'fcm', outcome: 'sent', attempts });
    await expireAndComplete(push);
    await expectOutcomes(push, 'expired', 'sent', 'delivered', 'delivered');
    const { channels } = await store.pushOutcomes.summarize(await findReported(store, push));
    expect(channels).toEqual({ mqtt: { delivered: 2, expired: 1 }, fcm: { sent: 1 } });
  });

  test.each([
    ['is delivered to all others', ['superseded', 'delivered'], 'acknowledge'],
    ['expires', ['superseded', 'expired'], 'expire'],
    ['is deleted', ['superseded', 'deleted'], 'delete'],
  ] as const)('superseded recipients stay so when the push %s', async (_name, ended, end) => {
    const [push, first, second] = await insertFour(`${end}-${shape}`);
    await deliver(store, push, { [first]: OUTCOMES.inbox, [second]: OUTCOMES.inbox });
    const newer = await supersede(push, first);
    await expectOutcomes(push, 'superseded', 'inbox', 'delivered', 'delivered');
    if (end === 'acknowledge') await acknowledge(database, push, second);
    if (end === 'expire') await expire(database, push);
    await (end === 'delete' ? deletePush(push) : complete(store, push));
    await expectOutcomes(push, ...ended, 'delivered', 'delivered');
    await acknowledge(database, push, first);
    await expectOutcomes(push, ...ended, 'delivered', 'delivered');
    expect(await isOver(push)).toBe(true);
    await expectOutcomes(newer, 'inbox');
  });

  test('a row of an open batch does not hide that another recipient is superseded', async () => {
    const collapse = `open-${shape}`;
    const [push, first, , third] = await insertFour(collapse);
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
    const [push] = await insertFour();
    await deliver(store, push, {});
    await complete(store, push);
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
    store.recipients.readPage(await findReported(store, push), from, 4);

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
  const reported = await findReported(store, push);
  const find = async () =>
    expect(await store.recipients.findOne(reported, tokens[40] ?? '')).toMatchObject({
      token: tokens[40],
    });
  const reads = await profile(database, find, { ns: /\.batches$/ });
  expect(reads.map(({ docsExamined }) => docsExamined)).toEqual([1]);
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
    await complete(store, expiring);
    await markDeleted(store, deleting);
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
