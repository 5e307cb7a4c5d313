import type { Db } from 'mongodb';
import type { NotifyEntry, WebhookDocument } from '../src/documents.ts';
import { ensureIndexes } from '../src/migrate.ts';
import {
  APP,
  anHourAgo,
  BATCH,
  batch,
  batchInInbox,
  embeddedBatch,
  inAnHour,
  insertDocuments,
  NEWER_PUSH,
  PUSH,
  push,
} from './document-fixtures.ts';
import type { Case } from './registration-write-cases.ts';

const ID = 'webhook1';
const BOX = { key: 1, nonce: 'n', text: 't', tag: 'g', from: 'f' };
const NOW = new Date();

const webhook: WebhookDocument = {
  ...{ _id: ID, app: APP, address: BOX, host: 'example.org', secrets: [{ sealed: BOX }] },
  ...{ events: ['push.finished', 'recipient.delivered'], createdAt: NOW, slot: 0 },
};

const entry: NotifyEntry = { w: ID, r: true, v: 1, at: anHourAgo() };
const claimedEntry: NotifyEntry = { ...entry, at: inAnHour(), until: inAnHour(), claim: 'c1' };
const claimedPush = {
  ...{ id: PUSH, claim: 'c1', entry: claimedEntry, kind: 'pushes' as const, document: push() },
};

const DEVICE = { _id: 'device1', app: APP, platform: 'android', registeredAt: NOW };

const given = (db: Db) => insertDocuments(db, 'webhooks', webhook);

async function givenDue(db: Db): Promise<void> {
  await ensureIndexes(db);
  await insertDocuments(db, 'pushes', push({ notify: [entry], work: batchInInbox() }));
  await insertDocuments(db, 'batches', batch({ _id: `${NEWER_PUSH}-000000`, notify: [entry] }));
}

const givenClaimed = (db: Db) =>
  insertDocuments(db, 'pushes', push({ notify: [claimedEntry], work: embeddedBatch() }));

/** Inserts a push past its retention, with events that are not reported, and its webhook. */
async function givenPastRetention(db: Db, fields: Partial<WebhookDocument>): Promise<void> {
  await insertDocuments(db, 'webhooks', { ...webhook, ...fields });
  const past = { purgeAt: anHourAgo(), counts: { delivered: 1 }, notify: [entry] };
  await insertDocuments(db, 'pushes', push({ ...past, work: embeddedBatch() }));
}

/** Functions that write webhooks and the events reported to them. */
export const WEBHOOK_WRITE_CASES: Record<string, Case | Record<string, Case>> = {
  'webhooks.create': {
    call: ({ webhooks }) => webhooks.create({ ...webhook, secret: BOX }),
  },
  'webhooks.change': {
    given,
    call: ({ webhooks }) =>
      webhooks.change(APP, ID, {
        events: ['recipient.sent'],
        address: { address: { ...BOX, text: 'other' }, host: 'other.example' },
      }),
  },
  'webhooks.remove': {
    given: async (db) => {
      await ensureIndexes(db);
      await given(db);
      await insertDocuments(db, 'devices', { ...DEVICE, notify: [entry] });
    },
    call: ({ webhooks }) => webhooks.remove(APP, ID),
  },
  'webhooks.turnOffOf': { given, call: ({ webhooks }) => webhooks.turnOffOf(APP, ID) },
  'webhooks.turnOff': { given, call: ({ webhooks }) => webhooks.turnOff(webhook, 'gone') },
  'webhooks.turnOn': {
    given: (db) =>
      insertDocuments(db, 'webhooks', { ...webhook, off: { at: NOW, reason: 'gone' } }),
    call: ({ webhooks }) => webhooks.turnOn(APP, ID),
  },
  'webhooks.rotate': {
    given,
    call: ({ webhooks }) => webhooks.rotate(webhook, { ...BOX, text: 'other' }, 1_000),
  },
  'webhooks.requestTest': { given, call: ({ webhooks }) => webhooks.requestTest(APP, ID) },
  'webhooks.endTest': {
    given: (db) => insertDocuments(db, 'webhooks', { ...webhook, testAt: NOW }),
    call: ({ webhooks }) => webhooks.endTest(ID, NOW),
  },
  'webhooks.recordSuccess': { given, call: ({ webhooks }) => webhooks.recordSuccess(webhook, 200) },
  'webhooks.recordFailure': {
    given,
    call: ({ webhooks }) => webhooks.recordFailure(webhook, { status: 500 }, 1_000),
  },
  'webhooks.recordFailedTest': {
    given,
    call: ({ webhooks }) => webhooks.recordFailedTest(webhook, { status: 500 }),
  },
  'webhooks.postpone': { given, call: ({ webhooks }) => webhooks.postpone(webhook, 1_000) },
  'webhooks.putBoxKey': {
    call: ({ webhooks }) => webhooks.putBoxKey({ id: 1, publicKey: 'key' }),
  },
  'webhooks.reseal': {
    given,
    call: ({ webhooks }) =>
      webhooks.reseal(webhook, { address: { ...BOX, key: 2 }, secrets: webhook.secrets }),
  },
  'outbox.claim': { given: givenDue, call: ({ outbox }) => outbox.claim(ID, 1_000) },
  'outbox.record': {
    given: givenClaimed,
    call: ({ outbox }) =>
      outbox.record(
        [
          {
            report: claimedPush,
            reported: Uint8Array.of(1, 1, 1),
            finished: true,
            isComplete: true,
          },
        ],
        1_000,
      ),
  },
  'outbox.release': {
    given: givenClaimed,
    call: ({ outbox }) => outbox.release([{ report: claimedPush, delayMs: 1_000 }]),
  },
  'outbox.keepUnreported': {
    'a push whose webhook is on': {
      given: (db) => givenPastRetention(db, {}),
      call: ({ outbox }) => outbox.keepUnreported([PUSH]),
    },
    'a push whose webhook is off': {
      given: (db) => givenPastRetention(db, { off: { at: anHourAgo(), reason: 'gone' } }),
      call: ({ outbox }) => outbox.keepUnreported([PUSH]),
    },
  },
  'outbox.replay': {
    given: async (db) => {
      await insertDocuments(db, 'pushes', push());
      await insertDocuments(db, 'batches', batch({ _id: BATCH }));
    },
    call: ({ outbox }) =>
      outbox.replay(webhook, { from: '', to: 'g' }, { pushes: 10, recipients: 10 }),
  },
};
