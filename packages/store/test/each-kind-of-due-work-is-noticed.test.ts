import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import {
  ACCOUNT,
  APP,
  anHourAgo,
  batch,
  CLAIM_FIELDS,
  embeddedBatch,
  inAnHour,
  insertDocuments,
  push,
} from './document-fixtures.ts';
import { type StoreUnderTest, startStore } from './store-under-test.ts';

let under: StoreUnderTest;
beforeAll(async () => {
  under = await startStore();
});
afterAll(() => under?.stop());
beforeEach(async () => {
  await under.clear();
  await under.store.suspensions.refresh();
});

/** Documents with due work, and how they are found by the function for their kind. */
const DUE: Readonly<
  Record<string, { collection: string; document: object; find: () => Promise<number> }>
> = {
  'a scheduled push': {
    collection: 'pushes',
    document: push({ state: 'scheduled', dueAt: anHourAgo() }),
    find: () => under.store.pushes.openDue(),
  },
  'an embedded batch': {
    collection: 'pushes',
    document: push({ work: embeddedBatch() }),
    find: async () => (await under.store.batchTable.findDue(10)).length,
  },
  'a batch of its own': {
    collection: 'batches',
    document: batch(),
    find: async () => (await under.store.batchTable.findDue(10)).length,
  },
  'a fan-out': {
    collection: 'pushes',
    document: push({ fan: { seq: 0, next: 0, done: false, at: anHourAgo() } }),
    find: async () => (await under.store.fanOuts.findDue(10)).length,
  },
  'an expired push': {
    collection: 'pushes',
    document: push({ expiresAt: anHourAgo(), sendUntil: anHourAgo() }),
    find: async () => (await under.store.pushCompletion.findDue(10)).length,
  },
  'the end of a push': {
    collection: 'pushes',
    document: push({ state: 'finished', ending: 'expired' }),
    find: async () => (await under.store.pushCompletion.findDue(10)).length,
  },
};

test.each(Object.entries(DUE))('%s', async (_, { collection, document, find }) => {
  const { dueWork } = under.store;
  expect(await dueWork.exists()).toBe(false);
  await insertDocuments(under.db, collection, document);
  expect(await dueWork.exists()).toBe(true);
  expect(await find()).toBe(1);
});

test('work that is not due, claimed, done, or of a suspended account is none', async () => {
  const { dueWork, suspensions } = under.store;
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
  expect(await dueWork.exists()).toBe(false);
  await insertDocuments(under.db, 'pushes', push({ work: embeddedBatch() }));
  expect(await dueWork.exists()).toBe(true);
  await insertDocuments(under.db, 'accounts', { _id: ACCOUNT, suspendedAt: anHourAgo() });
  await insertDocuments(under.db, 'apps', { _id: APP, account: ACCOUNT });
  await suspensions.refresh();
  expect(await dueWork.exists()).toBe(false);
});
