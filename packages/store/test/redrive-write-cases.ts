import { failureCode, failureMask } from '@carillon/core/outcomes';
import { Binary } from 'mongodb';
import type { RedriveDocument } from '../src/documents.ts';
import type { BatchRecipients } from '../src/failed-recipients.ts';
import {
  APP,
  after,
  anHourAgo,
  BATCH,
  type Call,
  type Cases,
  embeddedBatch,
  insertDocuments,
  on,
  PUSH,
  push,
  TOKENS,
} from './document-fixtures.ts';

const REDRIVE = 'c'.repeat(24);
const FAILED = Uint8Array.of(failureCode('payload-too-large'), 1, 1);

const redrive: RedriveDocument = {
  ...{ _id: REDRIVE, app: APP, state: 'running', createdAt: anHourAgo(), to: new Date() },
  ...{ filter: {}, done: 0, recipients: 0, skipped: {} },
};

const onRedrive = (call: Call) => on({ redrives: redrive }, call);

const failedPush = () => {
  const [failedAt, failures] = [anHourAgo(), failureMask(FAILED)];
  const work = embeddedBatch({ state: 'closed', outcomes: new Binary(FAILED), failedAt, failures });
  return push({ work });
};

const recipients: BatchRecipients = {
  ...{ batch: PUSH, n: TOKENS.length, positions: [0], tokens: ['device1'], isReserved: false },
};

/** Functions that write re-drives and their reservations. */
export const REDRIVE_WRITE_CASES: Cases = {
  'failedRecipients.reserve': on({ pushes: failedPush() }, (store) =>
    store.failedRecipients.reserve(REDRIVE, [recipients]),
  ),
  'failedRecipients.release': after(
    async (db) => {
      const entry = { by: REDRIVE, bits: new Binary(Uint8Array.of(1)) };
      const { work, ...other } = failedPush();
      await insertDocuments(db, 'batches', {
        ...{ _id: BATCH, push: PUSH, app: APP, work: { ...work, redriven: [entry] } },
      });
      await insertDocuments(db, 'pushes', other);
    },
    (store) => store.failedRecipients.release(REDRIVE, [{ ...recipients, batch: BATCH }]),
  ),
  'redrives.create': (store) => store.redrives.create(APP, {}, [PUSH]),
  'redrives.setTotal': onRedrive((store) => store.redrives.setTotal(redrive, 3)),
  'redrives.recordProgress': onRedrive((store) =>
    store.redrives.recordProgress(redrive, {
      ...{ cursor: PUSH, done: 1, recipients: 2, skipped: { expired: 3 } },
    }),
  ),
  'redrives.end': onRedrive((store) => store.redrives.end(redrive, 'finished')),
};
