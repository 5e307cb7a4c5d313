import { failureCode } from '@carillon/core/outcomes';
import type { Db } from 'mongodb';
import type { PushDocument } from '../src/documents.ts';
import { ensureIndexes } from '../src/migrate.ts';
import { PARKED_AT } from '../src/parked-batches.ts';
import {
  APP,
  after,
  anHourAgo,
  BATCH,
  batch,
  batchInInbox,
  type Cases,
  CLAIM_FIELDS,
  createUniqueIndexes,
  embeddedBatch,
  inboxRows,
  insertDocuments,
  NEWER_PUSH,
  on,
  PUSH,
  push,
  rows,
} from './document-fixtures.ts';

const NOW = new Date();

const settlement = (id: string) => {
  const { claim } = CLAIM_FIELDS;
  return { id, claim, outcomes: Uint8Array.of(1, 1, 1), latenciesMs: new Uint32Array(3) };
};

const heldClaim = { id: PUSH, claim: CLAIM_FIELDS.claim };

const receipts = (holder: string) =>
  rows(holder).map(({ token, push: of, work: id, position }) => {
    return { app: APP, rowId: `${token}:${of}`, push: of, work: id, position };
  });

const expired = { expiresAt: anHourAgo(), sendUntil: anHourAgo() };

const claimedFanOut = { push: push({ fan: { seq: 0, next: 0, done: false } }), claim: 'claim1' };

const claimedFan = { seq: 0, next: 0, done: false, claim: 'claim1', at: anHourAgo() };

const fullToken = 'full1';

async function insertFullInbox(db: Db): Promise<void> {
  const inboxRows = Array.from({ length: 1_000 }, (_, n) => ({
    _id: `${fullToken}:${n}`,
    push: PUSH,
  }));
  await insertDocuments(db, 'inbox', ...inboxRows);
}

const idempotency = { key: 'key', bodyHash: 'x' };
const twoDaysAgo = new Date(Date.now() - 2 * 86_400_000);

async function insertKeyedPush(db: Db, fields: Partial<PushDocument> = {}): Promise<void> {
  await createUniqueIndexes(db);
  await insertDocuments(db, 'pushes', push({ _id: NEWER_PUSH, idempotency, ...fields }));
}

/** Functions that write pushes, batches and inboxes, with one case for each way that sends other statements. */
export const PUSH_WRITE_CASES: Cases = {
  'pushes.insert': {
    'one call': (store) => store.pushes.insert(push({ work: embeddedBatch() })),
    'a push of many batches': (store) => store.pushes.insert(push({ state: 'accepting' })),
    'with the key of a push whose API process died': after(
      (db) => insertKeyedPush(db, { state: 'accepting', acceptingUntil: anHourAgo() }),
      (store) => store.pushes.insert(push({ idempotency })),
    ),
    'concurrent calls': (store) =>
      Promise.all([PUSH, NEWER_PUSH].map((_id) => store.pushes.insert(push({ _id })))),
    'with the key of a push of the day before yesterday': after(
      (db) => insertKeyedPush(db, { acceptedAt: twoDaysAgo }),
      (store) => store.pushes.insert(push({ idempotency })),
    ),
    'with the key of an accepted push': after(
      (db) => insertKeyedPush(db),
      (store) => store.pushes.insert(push({ idempotency })),
    ),
  },
  'pushes.findByIdempotencyKey': after(
    (db) => insertKeyedPush(db),
    (store) => store.pushes.findByIdempotencyKey(APP, 'key'),
  ),
  'pushes.renewAcceptingLease': on({ pushes: push({ state: 'accepting' }) }, (store) =>
    store.pushes.renewAcceptingLease(PUSH),
  ),
  'pushes.abandon': on({ pushes: push({ state: 'accepting' }) }, (store) =>
    store.pushes.abandon(PUSH),
  ),
  'pushes.commit': on({ pushes: push({ state: 'accepting' }) }, (store) =>
    store.pushes.commit(PUSH, 'open'),
  ),
  'pushes.openDue': on({ pushes: push({ state: 'scheduled', dueAt: anHourAgo() }) }, (store) =>
    store.pushes.openDue(),
  ),
  'batches.insert': (store) =>
    store.batches.insert(
      Array.from({ length: 45 }, (_, n) => batch({ _id: `${BATCH.slice(0, -2)}${n + 10}` })),
      async () => true,
    ),
  'batches.removeAll': on({ batches: batch() }, (store) => store.batches.removeAll(PUSH)),
  'batches.removeOrphan': on({ batches: batch({ work: embeddedBatch(CLAIM_FIELDS) }) }, (store) =>
    store.batches.removeOrphan({ id: BATCH, claim: CLAIM_FIELDS.claim }),
  ),
  'batches.insertIfAbsent': (store) => store.batches.insertIfAbsent([batch()]),
  'batches.release': on(
    { batches: batch({ work: embeddedBatch({ state: 'waiting' }) }) },
    (store) => store.batches.release(PUSH, 64),
  ),
  'fanOuts.claim': on(
    { pushes: push({ fan: { seq: 0, next: 0, done: false, at: anHourAgo() } }) },
    (store) => store.fanOuts.claim(PUSH, 6_000),
  ),
  'fanOuts.beginPage': on({ pushes: push({ fan: claimedFan }) }, (store) =>
    store.fanOuts.beginPage(claimedFanOut, { from: '', to: 'b', next: 0 }),
  ),
  'fanOuts.endStep': on({ pushes: push({ fan: claimedFan }) }, (store) =>
    store.fanOuts.endStep(claimedFanOut, { done: true }),
  ),
  'batchTable.claim': {
    'one call': on({ pushes: push({ work: embeddedBatch() }) }, (store) =>
      store.batchTable.claim(PUSH, 'r:1', 6_000),
    ),
    'concurrent calls': on(
      {
        pushes: [push({ work: embeddedBatch() }), push({ _id: NEWER_PUSH, work: embeddedBatch() })],
      },
      (store) =>
        Promise.all([PUSH, NEWER_PUSH].map((id) => store.batchTable.claim(id, 'r:1', 6_000))),
    ),
  },
  'batchTable.renew': on({ pushes: push({ work: embeddedBatch(CLAIM_FIELDS) }) }, (store) =>
    store.batchTable.renew([heldClaim], 6_000),
  ),
  'batchTable.settle': {
    'one call': on({ pushes: push({ work: embeddedBatch(CLAIM_FIELDS) }) }, (store) =>
      store.batchTable.settle({ ...settlement(PUSH), finish: { purgeAt: NOW } }),
    ),
    'concurrent calls': on(
      {
        pushes: [
          push({ work: embeddedBatch(CLAIM_FIELDS) }),
          push({ _id: NEWER_PUSH, work: embeddedBatch({ ...CLAIM_FIELDS, claim: 'c2' }) }),
        ],
      },
      (store) =>
        Promise.all([
          store.batchTable.settle(settlement(PUSH)),
          store.batchTable.settle({ ...settlement(NEWER_PUSH), claim: 'c2' }),
        ]),
    ),
    'concurrent calls that finish their pushes, one with a lost claim': after(
      async (db) => {
        const works = ['claim1', 'c2'].map((claim) => embeddedBatch({ ...CLAIM_FIELDS, claim }));
        const [work = embeddedBatch(), other = embeddedBatch()] = works;
        await insertDocuments(db, 'pushes', push({ work }), push({ _id: NEWER_PUSH, work: other }));
      },
      (store) =>
        Promise.all(
          [settlement(PUSH), { ...settlement(NEWER_PUSH), claim: 'lost' }].map((one) =>
            store.batchTable.settle({ ...one, finish: { purgeAt: NOW } }),
          ),
        ),
    ),
  },
  'batchTable.releaseClaim': on({ pushes: push({ work: embeddedBatch(CLAIM_FIELDS) }) }, (store) =>
    store.batchTable.releaseClaim(heldClaim, { delayMs: 0 }),
  ),
  'batchTable.saveOutcomes': on({ pushes: push({ work: embeddedBatch(CLAIM_FIELDS) }) }, (store) =>
    store.batchTable.saveOutcomes({
      ...heldClaim,
      outcomes: Uint8Array.of(2, 0, 0),
      latenciesMs: new Uint32Array(3),
      deferred: [],
    }),
  ),
  'batchTable.unpark': on(
    {
      pushes: push({ work: embeddedBatch({ at: PARKED_AT }) }),
      batches: batch({ work: embeddedBatch({ at: PARKED_AT }) }),
    },
    (store) => store.batchTable.unpark(10),
    // It names the indexes that it uses.
    ensureIndexes,
  ),
  'batchTable.retryNow': on(
    {
      pushes: push({ work: embeddedBatch({ tries: 1 }) }),
      batches: batch({ work: embeddedBatch({ tries: 1 }) }),
    },
    (store) => store.batchTable.retryNow(APP, 'mqtt'),
  ),
  'pushCompletion.completeIfDone': {
    'delivered to all, one superseded': after(
      async (db) => {
        const got = { 0: 3 };
        await insertDocuments(db, 'pushes', push({ work: { ...batchInInbox(), got } }));
      },
      (store) => store.pushCompletion.completeIfDone(PUSH, 1_000),
    ),
    'expired in an inbox': on(
      { pushes: push({ ...expired, work: batchInInbox() }), inbox: inboxRows(PUSH) },
      (store) => store.pushCompletion.completeIfDone(PUSH, 1_000),
    ),
    'expired in batches, one of them never claimed': on(
      {
        pushes: push(expired),
        batches: [batch({ work: batchInInbox() }), batch({ _id: `${PUSH}-000001` })],
        inbox: inboxRows(BATCH),
      },
      (store) => store.pushCompletion.completeIfDone(PUSH, 1_000),
    ),
  },
  'pushCompletion.markDeleted': on({ pushes: push() }, (store) =>
    store.pushCompletion.markDeleted(APP, PUSH),
  ),
  'inbox.enqueue': {
    plain: (store) => store.inbox.enqueue(rows(PUSH)),
    'with a collapse key': (store) => store.inbox.enqueue(rows(PUSH, 'c')),
    'in place of an older push': on({ inbox: inboxRows(PUSH, 'c') }, (store) =>
      store.inbox.enqueue(rows(NEWER_PUSH, 'c').map((row) => ({ ...row, push: NEWER_PUSH }))),
    ),
  },
  'inbox.remove': on({ inbox: inboxRows(PUSH) }, (store) =>
    store.inbox.remove(PUSH, [`device1:${PUSH}`]),
  ),
  'inboxQuota.sample': after(
    insertFullInbox, // One in fifty is counted, at random.
    (store) => store.inboxQuota.sample(new Array(600).fill(fullToken)),
  ),
  'inboxQuota.clearBelowQuota': on({ full: { _id: 'device1' } }, (store) =>
    store.inboxQuota.clearBelowQuota(10),
  ),
  'retention.abandonStale': on({ pushes: push({ state: 'accepting' }) }, (store) =>
    store.retention.abandonStale(),
  ),
  'retention.removeOrphans': on({ batches: batch() }, (store) =>
    store.retention.removeOrphans('', 10),
  ),
  'retention.purge': on(
    { pushes: push({ purgeAt: anHourAgo() }), batches: batch(), inbox: inboxRows(BATCH) },
    (store) => store.retention.purge(10, store.outbox.keepUnreported),
  ),
  'receipts.record': {
    'of a push': on({ pushes: push({ work: batchInInbox() }), inbox: inboxRows(PUSH) }, (store) =>
      store.receipts.record(receipts(PUSH)),
    ),
    'of a batch': on(
      { batches: batch({ work: batchInInbox() }), inbox: inboxRows(BATCH) },
      (store) => store.receipts.record(receipts(BATCH)),
    ),
  },
  'receipts.recordFallback': {
    'of a push, whose row ends': on(
      { pushes: push({ work: batchInInbox() }), inbox: inboxRows(PUSH) },
      (store) =>
        store.receipts.recordFallback(PUSH, {
          ...{ app: APP, push: PUSH, sent: ['device1'], done: ['device1'], refused: [] },
          rowIds: [`device1:${PUSH}`],
        }),
    ),
    'of a batch': on({ batches: batch({ work: batchInInbox() }) }, (store) =>
      store.receipts.recordFallback(BATCH, {
        ...{ app: APP, push: PUSH, sent: ['device1'], done: [], rowIds: [] },
        refused: [{ token: 'device2', code: failureCode('inbox-full') }],
      }),
    ),
  },
  'receipts.recordGone': on(
    { pushes: push({ work: batchInInbox() }), inbox: inboxRows(PUSH) },
    (store) => store.receipts.recordGone(receipts(PUSH)),
  ),
};
