import type { Db } from 'mongodb';
import type { PushDocument } from '../src/documents.ts';
import {
  APP,
  anHourAgo,
  BATCH,
  batch,
  batchInInbox,
  CLAIM_FIELDS,
  createUniqueIndexes,
  embeddedBatch,
  fallback,
  insertDocuments,
  insertInboxRows,
  NEWER_PUSH,
  PUSH,
  push,
  rows,
} from './document-fixtures.ts';
import type { Case } from './registration-write-cases.ts';

const NOW = new Date();

const settlement = (id: string) => {
  const { claim } = CLAIM_FIELDS;
  return { id, claim, outcomes: Uint8Array.of(1, 1, 1), latenciesMs: new Uint32Array(3) };
};

const heldClaim = { id: PUSH, claim: CLAIM_FIELDS.claim };

const receipts = (holder: string) =>
  rows(holder).map(({ token, push: of, work: id, position }) => {
    return { rowId: `${token}:${of}`, push: of, work: id, position };
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
export const PUSH_WRITE_CASES: Record<string, Case | Record<string, Case>> = {
  'pushes.insert': {
    'one call': { call: (store) => store.pushes.insert(push({ work: embeddedBatch() })) },
    'a push of many batches': {
      call: (store) => store.pushes.insert(push({ state: 'accepting' })),
    },
    'with the key of a push whose API process died': {
      given: (db) => insertKeyedPush(db, { state: 'accepting', acceptingUntil: anHourAgo() }),
      call: (store) => store.pushes.insert(push({ idempotency })),
    },
    'concurrent calls': {
      call: (store) =>
        Promise.all([PUSH, NEWER_PUSH].map((_id) => store.pushes.insert(push({ _id })))),
    },
    'with the key of a push of the day before yesterday': {
      given: (db) => insertKeyedPush(db, { acceptedAt: twoDaysAgo }),
      call: (store) => store.pushes.insert(push({ idempotency })),
    },
    'with the key of an accepted push': {
      given: (db) => insertKeyedPush(db),
      call: (store) => store.pushes.insert(push({ idempotency })),
    },
  },
  'pushes.findByIdempotencyKey': {
    given: (db) => insertKeyedPush(db),
    call: (store) => store.pushes.findByIdempotencyKey(APP, 'key'),
  },
  'pushes.renewAcceptingLease': {
    given: (db) => insertDocuments(db, 'pushes', push({ state: 'accepting' })),
    call: (store) => store.pushes.renewAcceptingLease(PUSH),
  },
  'pushes.abandon': {
    given: (db) => insertDocuments(db, 'pushes', push({ state: 'accepting' })),
    call: (store) => store.pushes.abandon(PUSH),
  },
  'pushes.commit': {
    given: (db) => insertDocuments(db, 'pushes', push({ state: 'accepting' })),
    call: (store) => store.pushes.commit(PUSH, 'open'),
  },
  'pushes.openDue': {
    given: (db) => insertDocuments(db, 'pushes', push({ state: 'scheduled', dueAt: anHourAgo() })),
    call: (store) => store.pushes.openDue(),
  },
  'batches.insert': {
    call: (store) =>
      store.batches.insert(
        Array.from({ length: 45 }, (_, n) => batch({ _id: `${BATCH.slice(0, -2)}${n + 10}` })),
        async () => true,
      ),
  },
  'batches.removeAll': {
    given: (db) => insertDocuments(db, 'batches', batch()),
    call: (store) => store.batches.removeAll(PUSH),
  },
  'batches.removeOrphan': {
    given: (db) => insertDocuments(db, 'batches', batch({ work: embeddedBatch(CLAIM_FIELDS) })),
    call: (store) => store.batches.removeOrphan({ id: BATCH, claim: CLAIM_FIELDS.claim }),
  },
  'batches.insertIfAbsent': { call: (store) => store.batches.insertIfAbsent([batch()]) },
  'batches.release': {
    given: (db) =>
      insertDocuments(db, 'batches', batch({ work: embeddedBatch({ state: 'waiting' }) })),
    call: (store) => store.batches.release(PUSH, 64),
  },
  'fanOuts.claim': {
    given: (db) =>
      insertDocuments(
        db,
        'pushes',
        push({ fan: { seq: 0, next: 0, done: false, at: anHourAgo() } }),
      ),
    call: (store) => store.fanOuts.claim(PUSH, 6_000),
  },
  'fanOuts.beginPage': {
    given: (db) => insertDocuments(db, 'pushes', push({ fan: claimedFan })),
    call: (store) => store.fanOuts.beginPage(claimedFanOut, { from: '', to: 'b', next: 0 }),
  },
  'fanOuts.endStep': {
    given: (db) => insertDocuments(db, 'pushes', push({ fan: claimedFan })),
    call: (store) => store.fanOuts.endStep(claimedFanOut, { done: true }),
  },
  'batchTable.claim': {
    'one call': {
      given: (db) => insertDocuments(db, 'pushes', push({ work: embeddedBatch() })),
      call: (store) => store.batchTable.claim(PUSH, 'r:1', 6_000),
    },
    'concurrent calls': {
      given: (db) =>
        insertDocuments(
          db,
          'pushes',
          push({ work: embeddedBatch() }),
          push({ _id: NEWER_PUSH, work: embeddedBatch() }),
        ),
      call: (store) =>
        Promise.all([PUSH, NEWER_PUSH].map((id) => store.batchTable.claim(id, 'r:1', 6_000))),
    },
  },
  'batchTable.renew': {
    given: (db) => insertDocuments(db, 'pushes', push({ work: embeddedBatch(CLAIM_FIELDS) })),
    call: (store) => store.batchTable.renew([heldClaim], 6_000),
  },
  'batchTable.settle': {
    'one call': {
      given: (db) => insertDocuments(db, 'pushes', push({ work: embeddedBatch(CLAIM_FIELDS) })),
      call: (store) => store.batchTable.settle({ ...settlement(PUSH), finish: { purgeAt: NOW } }),
    },
    'concurrent calls': {
      given: async (db) => {
        await insertDocuments(db, 'pushes', push({ work: embeddedBatch(CLAIM_FIELDS) }));
        await insertDocuments(
          db,
          'pushes',
          push({ _id: NEWER_PUSH, work: embeddedBatch({ ...CLAIM_FIELDS, claim: 'c2' }) }),
        );
      },
      call: (store) =>
        Promise.all([
          store.batchTable.settle(settlement(PUSH)),
          store.batchTable.settle({ ...settlement(NEWER_PUSH), claim: 'c2' }),
        ]),
    },
    'concurrent calls that finish their pushes, one with a lost claim': {
      given: async (db) => {
        const works = ['claim1', 'c2'].map((claim) => embeddedBatch({ ...CLAIM_FIELDS, claim }));
        const [work = embeddedBatch(), other = embeddedBatch()] = works;
        await insertDocuments(db, 'pushes', push({ work }), push({ _id: NEWER_PUSH, work: other }));
      },
      call: (store) =>
        Promise.all(
          [settlement(PUSH), { ...settlement(NEWER_PUSH), claim: 'lost' }].map((one) =>
            store.batchTable.settle({ ...one, finish: { purgeAt: NOW } }),
          ),
        ),
    },
  },
  'batchTable.releaseClaim': {
    given: (db) => insertDocuments(db, 'pushes', push({ work: embeddedBatch(CLAIM_FIELDS) })),
    call: (store) =>
      store.batchTable.releaseClaim(heldClaim, {
        delayMs: 0,
        received: { positions: [1], latenciesMs: Uint32Array.of(0, 5, 0) },
      }),
  },
  'batchTable.saveOutcomes': {
    given: (db) => insertDocuments(db, 'pushes', push({ work: embeddedBatch(CLAIM_FIELDS) })),
    call: (store) =>
      store.batchTable.saveOutcomes({
        ...heldClaim,
        outcomes: Uint8Array.of(2, 0, 0),
        latenciesMs: new Uint32Array(3),
        deferred: [],
      }),
  },
  'batchTable.retryNow': {
    given: async (db) => {
      await insertDocuments(db, 'pushes', push({ work: embeddedBatch({ tries: 1 }) }));
      await insertDocuments(db, 'batches', batch({ work: embeddedBatch({ tries: 1 }) }));
    },
    call: (store) => store.batchTable.retryNow(APP, 'mqtt'),
  },
  'pushCompletion.completeIfDone': {
    'delivered to all, one superseded': {
      given: async (db) => {
        const got = { 0: 3 };
        await insertDocuments(db, 'pushes', push({ work: { ...batchInInbox(), got } }));
      },
      call: (store) => store.pushCompletion.completeIfDone(PUSH, 1_000),
    },
    'expired in an inbox': {
      given: async (db) => {
        await insertDocuments(db, 'pushes', push({ ...expired, work: batchInInbox() }));
        await insertInboxRows(db, PUSH);
      },
      call: (store) => store.pushCompletion.completeIfDone(PUSH, 1_000),
    },
    'expired in batches, one of them never claimed, one with a fallback': {
      given: async (db) => {
        await insertDocuments(db, 'pushes', push(expired));
        await insertDocuments(db, 'batches', batch({ work: batchInInbox() }), fallback());
        await insertDocuments(db, 'batches', batch({ _id: `${PUSH}-000001` }));
        await insertInboxRows(db, BATCH);
      },
      call: (store) => store.pushCompletion.completeIfDone(PUSH, 1_000),
    },
  },
  'pushCompletion.markDeleted': {
    given: (db) => insertDocuments(db, 'pushes', push()),
    call: (store) => store.pushCompletion.markDeleted(APP, PUSH),
  },
  'inbox.enqueue': {
    plain: { call: (store) => store.inbox.enqueue(rows(PUSH)) },
    'with a collapse key': { call: (store) => store.inbox.enqueue(rows(PUSH, 'c')) },
    'in place of an older push': {
      given: (db) => insertInboxRows(db, PUSH, 'c'),
      call: (store) =>
        store.inbox.enqueue(rows(NEWER_PUSH, 'c').map((row) => ({ ...row, push: NEWER_PUSH }))),
    },
  },
  'inbox.remove': {
    given: (db) => insertInboxRows(db, PUSH),
    call: (store) => store.inbox.remove(PUSH, [`device1:${PUSH}`]),
  },
  'inboxQuota.sample': {
    given: insertFullInbox,
    // One in fifty is counted, at random.
    call: (store) => store.inboxQuota.sample(new Array(600).fill(fullToken)),
  },
  'inboxQuota.clearBelowQuota': {
    given: (db) => insertDocuments(db, 'full', { _id: 'device1' }),
    call: (store) => store.inboxQuota.clearBelowQuota(10),
  },
  'retention.abandonStale': {
    given: (db) => insertDocuments(db, 'pushes', push({ state: 'accepting' })),
    call: (store) => store.retention.abandonStale(),
  },
  'retention.removeOrphans': {
    given: (db) => insertDocuments(db, 'batches', batch()),
    call: (store) => store.retention.removeOrphans('', 10),
  },
  'retention.purge': {
    given: async (db) => {
      await insertDocuments(db, 'pushes', push({ purgeAt: anHourAgo() }));
      await insertDocuments(db, 'batches', batch());
      await insertInboxRows(db, BATCH);
    },
    call: (store) => store.retention.purge(10, store.outbox.keepUnreported),
  },
  'receipts.record': {
    'of a push': {
      given: async (db) => {
        await insertDocuments(db, 'pushes', push({ work: batchInInbox() }));
        await insertInboxRows(db, PUSH);
      },
      call: (store) => store.receipts.record(receipts(PUSH)),
    },
    'of a batch': {
      given: async (db) => {
        await insertDocuments(db, 'batches', batch({ work: batchInInbox() }));
        await insertInboxRows(db, BATCH);
      },
      call: (store) => store.receipts.record(receipts(BATCH)),
    },
  },
  'receipts.recordGone': {
    given: async (db) => {
      await insertDocuments(db, 'pushes', push({ work: batchInInbox() }));
      await insertInboxRows(db, PUSH);
    },
    call: (store) => store.receipts.recordGone(receipts(PUSH)),
  },
};
