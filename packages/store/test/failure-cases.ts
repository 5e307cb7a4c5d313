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
const SCOPE = { by: REDRIVE, to: new Date() };

const redrive: RedriveDocument = {
  ...{ _id: REDRIVE, app: APP, state: 'running', createdAt: anHourAgo(), to: new Date() },
  ...{ filter: {}, done: 0, recipients: 0, skipped: {} },
};

const onRedrive = (call: Call) => on('redrives', redrive, call);

const failedPush = () => {
  const [failedAt, failures] = [anHourAgo(), failureMask(FAILED)];
  const work = embeddedBatch({ state: 'closed', outcomes: new Binary(FAILED), failedAt, failures });
  return push({ work });
};

const recipients: BatchRecipients = {
  ...{ batch: PUSH, n: TOKENS.length, positions: [0], tokens: ['device1'], isReserved: false },
};

const deviceQuery = { app: APP, token: 'device1', before: 'g', scanLimit: 10, limit: 10 };

/** Functions for operators that never write. */
export const FAILURE_READ_CASES: Record<string, Call> = {
  'apps.search': (store) => store.apps.search('(a', [APP], 10),
  'apps.listIds': (store) => store.apps.listIds('all', 10),
  'collapse.filterSuperseded': (store) =>
    store.collapse.filterSuperseded({ _id: PUSH, app: APP, collapse: 'c' }, TOKENS),
  'devices.findByAddress': (store) => store.devices.findByAddress([APP], 'address', 10),
  'failedRecipients.findPush': (store) => store.failedRecipients.findPush(APP, PUSH),
  'failedRecipients.iterateParts': async (store) => {
    for await (const _ of store.failedRecipients.iterateParts(push(), SCOPE)) break;
  },
  'failedRecipients.iteratePushes': async (store) => {
    for await (const _ of store.failedRecipients.iteratePushes(APP, { to: new Date() })) break;
  },
  'failures.list': (store) => store.failures.list({ app: APP, limit: 10 }),
  'inbox.count': (store) => store.inbox.count('device1'),
  'pushSearch.search': (store) => store.pushSearch.search({ app: APP, limit: 10 }),
  'pushSummaries.findRedriven': (store) => store.pushSummaries.findRedriven(push()),
  'pushSummaries.listTokens': (store) => store.pushSummaries.listTokens(push(), 10),
  'pushSummaries.sampleProviderErrors': (store) =>
    store.pushSummaries.sampleProviderErrors(push(), 10),
  'pushSummaries.summarize': (store) => store.pushSummaries.summarize(push()),
  'pushes.findApp': (store) => store.pushes.findApp(PUSH),
  'pushesOfDevice.search': (store) => store.pushesOfDevice.search(deviceQuery),
  'redrives.find': (store) => store.redrives.find(REDRIVE),
  'redrives.listRunning': (store) => store.redrives.listRunning(10),
  'topics.listPage': (store) => store.topics.listPage(APP, '', 10),
};

/** Functions that write re-drives and their reservations. */
export const FAILURE_WRITE_CASES: Cases = {
  'failedRecipients.reserve': on('pushes', failedPush(), (store) =>
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
