import { beforeEach, expect, test } from '@jest/globals';
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
import { useStore } from './use-store.ts';

const under = useStore();
beforeEach(async () => {
  await under.clear();
  await under.store.suspensions.refresh();
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
  const { batchTable, fanOuts, pushCompletion, pushes } = under.store;
  const opened = await pushes.openDue();
  const finders = [batchTable, fanOuts, pushCompletion];
  const found = await Promise.all(finders.map(({ findDue }) => findDue(10)));
  return opened + found.flat().length;
}

test.each(Object.entries(DUE))('%s', async (_, { collection, document }) => {
  expect(await countDue()).toBe(0);
  await insertDocuments(under.db, collection, document);
  expect(await countDue()).toBe(1);
});

test('work that is not due, claimed, done, or of a suspended account is none', async () => {
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
  await under.store.suspensions.refresh();
  expect(await countDue()).toBe(0);
});
