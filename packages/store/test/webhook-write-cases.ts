import type { Db } from 'mongodb';
import { KEPT_REQUESTS, type WebhookRequestDocument } from '../../webhooks/src/requests.ts';
import type { NotifyEntry, WebhookDocument } from '../src/documents.ts';
import { ensureIndexes } from '../src/migrate.ts';
import {
  APP,
  after,
  anHourAgo,
  BATCH,
  batch,
  batchInInbox,
  type Call,
  type Cases,
  embeddedBatch,
  inAnHour,
  insertDocuments,
  NEWER_PUSH,
  on,
  PUSH,
  push,
} from './document-fixtures.ts';

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

const REQUEST: WebhookRequestDocument = {
  ...{ _id: 'f'.repeat(24), webhook: ID, at: NOW, status: 200, milliseconds: 1, bytes: 2 },
  ...{ events: [`${PUSH}.finished`], types: [{ type: 'push.finished', count: 1 }] },
};

/** Inserts so many requests that the next one removes an old one. */
async function givenRequests(db: Db): Promise<void> {
  await ensureIndexes(db);
  for (let n = 0; n < KEPT_REQUESTS; n += 1)
    await insertDocuments(db, 'webhook_requests', { ...REQUEST, _id: String(n) });
}

const onWebhook = (call: Call) => on({ webhooks: webhook }, call);

async function givenDue(db: Db): Promise<void> {
  await ensureIndexes(db);
  await insertDocuments(db, 'pushes', push({ notify: [entry], work: batchInInbox() }));
  await insertDocuments(db, 'batches', batch({ _id: `${NEWER_PUSH}-000000`, notify: [entry] }));
}

const onClaimed = (call: Call) =>
  on({ pushes: push({ notify: [claimedEntry], work: embeddedBatch() }) }, call);

/** Inserts a push past its retention, with events that are not reported, and its webhook. */
async function givenPastRetention(db: Db, fields: Partial<WebhookDocument>): Promise<void> {
  await insertDocuments(db, 'webhooks', { ...webhook, ...fields });
  const past = { purgeAt: anHourAgo(), counts: { delivered: 1 }, notify: [entry] };
  await insertDocuments(db, 'pushes', push({ ...past, work: embeddedBatch() }));
}

/** Functions that write webhooks and the events reported to them. */
export const WEBHOOK_WRITE_CASES: Cases = {
  'webhooks.create': ({ webhooks }) => webhooks.create({ ...webhook, secret: BOX }),
  'webhooks.change': onWebhook(({ webhooks }) =>
    webhooks.change(APP, ID, {
      events: ['recipient.sent'],
      address: { address: { ...BOX, text: 'other' }, host: 'other.example' },
    }),
  ),
  'webhooks.remove': on(
    { webhooks: webhook, webhook_requests: REQUEST, devices: { ...DEVICE, notify: [entry] } },
    ({ webhooks }) => webhooks.remove(APP, ID),
    ensureIndexes,
  ),
  'webhooks.turnOffOf': onWebhook(({ webhooks }) => webhooks.turnOffOf(APP, ID)),
  'webhooks.turnOff': onWebhook(({ webhooks }) => webhooks.turnOff(webhook, 'gone')),
  'webhooks.turnOn': on(
    { webhooks: { ...webhook, off: { at: NOW, reason: 'gone' } } },
    ({ webhooks }) => webhooks.turnOn(APP, ID),
  ),
  'webhooks.rotate': onWebhook(({ webhooks }) =>
    webhooks.rotate(webhook, { ...BOX, text: 'other' }, 1_000),
  ),
  'webhooks.requestTest': onWebhook(({ webhooks }) => webhooks.requestTest(APP, ID)),
  'webhooks.endTest': on({ webhooks: { ...webhook, testAt: NOW } }, ({ webhooks }) =>
    webhooks.endTest(ID, NOW),
  ),
  'webhooks.requestResend': onWebhook(({ webhooks }) =>
    webhooks.requestResend(APP, ID, REQUEST._id),
  ),
  'webhooks.endResend': on({ webhooks: { ...webhook, resend: REQUEST._id } }, ({ webhooks }) =>
    webhooks.endResend(ID, REQUEST._id),
  ),
  'webhooks.recordSuccess': onWebhook(({ webhooks }) => webhooks.recordSuccess(webhook, 200)),
  'webhooks.recordFailure': onWebhook(({ webhooks }) =>
    webhooks.recordFailure(webhook, { status: 500 }, 1_000),
  ),
  'webhooks.recordFailedTest': onWebhook(({ webhooks }) =>
    webhooks.recordFailedTest(webhook, { status: 500 }),
  ),
  'webhooks.postpone': onWebhook(({ webhooks }) => webhooks.postpone(webhook, 1_000)),
  'webhooks.putBoxKey': ({ webhooks }) => webhooks.putBoxKey({ id: 1, publicKey: 'key' }),
  'webhooks.reseal': onWebhook(({ webhooks }) =>
    webhooks.reseal(webhook, { address: { ...BOX, key: 2 }, secrets: webhook.secrets }),
  ),
  'webhookRequests.record': after(givenRequests, ({ webhookRequests }) =>
    webhookRequests.record(ID, [REQUEST]),
  ),
  'outbox.claim': after(givenDue, ({ outbox }) => outbox.claim(ID, 1_000)),
  'outbox.record': onClaimed(({ outbox }) =>
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
  ),
  'outbox.release': onClaimed(({ outbox }) =>
    outbox.release([{ report: claimedPush, delayMs: 1_000 }]),
  ),
  'outbox.keepUnreported': {
    'a push whose webhook is on': after(
      (db) => givenPastRetention(db, {}),
      ({ outbox }) => outbox.keepUnreported([PUSH]),
    ),
    'a push whose webhook is off': after(
      (db) => givenPastRetention(db, { off: { at: anHourAgo(), reason: 'gone' } }),
      ({ outbox }) => outbox.keepUnreported([PUSH]),
    ),
  },
  'outbox.replay': on({ pushes: push(), batches: batch({ _id: BATCH }) }, ({ outbox }) =>
    outbox.replay(webhook, { from: '', to: 'g' }, { pushes: 10, recipients: 10 }),
  ),
};
