import { fallbackBatchId, newPushId } from '@carillon/core/ids';
import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import { createBatch, createBatchDocument } from '../src/create-batches.ts';
import { iterateBatches } from '../src/final-outcomes.ts';
import type { Store } from '../src/store.ts';
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
  type StoreUnderTest,
  startStore,
  type TestPush,
} from './store-under-test.ts';

let database: StoreUnderTest;
let store: Store;
beforeAll(async () => {
  database = await startStore();
  store = database.store;
});
afterAll(async () => {
  await database?.stop();
});

/** Checks that counts and single recipients report these outcomes, sorted by token. */
async function expectOutcomes(push: TestPush, ...expected: string[]): Promise<void> {
  expect(await readOutcomes(store, push)).toEqual({
    outcomes: expected,
    counts: countOutcomes(expected),
  });
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
    const [gone, failed, sent, delivered] = four();
    const push = await insertPush(database, [gone, failed, sent, delivered], { shape });
    await deliver(store, push, {
      [gone]: OUTCOMES.gone,
      [failed]: failureCode('payload-too-large'),
      [sent]: OUTCOMES.sent,
    });
    await expectOutcomes(push, 'gone', 'failed', 'sent', 'delivered');
    await complete(push);
    await expectOutcomes(push, 'gone', 'failed', 'sent', 'delivered');
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
      ...{ _id: fallbackBatchId(of), push: push.id, app: 'app', from: first, to: second },
      work: { ...work, fallback: true, outcomes },
    });
    await expectOutcomes(push, 'inbox', 'inbox', 'delivered', 'delivered');
    await expire(database, push);
    await complete(push);
    await expectOutcomes(push, 'expired', 'sent', 'delivered', 'delivered');
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
    await database.batches.deleteMany({ push: push.id });
    expect(await readOutcomes(store, push)).toEqual(unknown);
    await store.retention.purge(10);
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
