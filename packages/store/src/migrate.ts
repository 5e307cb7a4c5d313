import { type Db, type IndexDescription, MongoServerError } from 'mongodb';
import { NOTIFY_INDEX } from './notify-mark.ts';
import { SESSION_IDLE_MS } from './sessions.ts';

/**
 * Fields of the index on the embedded batches that are not closed. It alone counts those that are due: MongoDB reads a
 * document to check a field that is not in the index, even one that the partial filter fixes. The channel comes first,
 * so that MongoDB never considers the index for the many queries by push and state.
 */
export const DUE_PUSHES_INDEX = {
  'work.channel': 1,
  'work.state': 1,
  state: 1,
  'work.at': 1,
  app: 1,
} as const;
/** Fields of the same index on batches with a document of their own, those that wait for their release included. */
export const DUE_BATCHES_INDEX = {
  'work.channel': 1,
  'work.state': 1,
  'work.at': 1,
  app: 1,
} as const;

/** Retention of entries of the audit log. */
const AUDIT_SECONDS = 400 * 86_400;
/** Retention of requests to webhooks: a receiver's answer may repeat data of devices. */
const WEBHOOK_REQUEST_SECONDS = 7 * 86_400;
/** Retention of re-drives after their end. */
const REDRIVE_SECONDS = 30 * 86_400;

/** Fields of the index on the pushes of an app, by time. */
export const PUSHES_OF_APP_INDEX = { app: 1, _id: 1 } as const;

/** Fields of the index on the batches of a push. */
export const BATCHES_OF_PUSH_INDEX = { push: 1, 'work.state': 1 } as const;

/** Fields of the index that finds the batch of one recipient; they never change. */
export const RECIPIENT_INDEX = { push: 1, from: 1, to: 1 } as const;

/**
 * Fields of the index that finds a device's batches among those of its app that are not closed, the waiting ones first.
 * A claim changes none of them, and a release moves a batch ahead of a scan, which therefore misses none.
 */
export const UNCLOSED_BATCHES_INDEX = { app: 1, 'work.state': -1, from: 1, to: 1 } as const;

/**
 * Fields of the index that finds a device's batches of few recipients. It has an entry for each recipient, so it has no
 * field for the order: with `_id` it takes four times as much, and a device has few pushes to sort.
 */
export const DEVICE_INDEX = { tokenHashes: 1 } as const;
/** Fields of the index that finds the larger batches of an app, by time, whose range of tokens includes a device. */
export const TOKEN_RANGE_INDEX = { app: 1, _id: 1, firstToken: 1, lastToken: 1 } as const;

/** Fields of the index on batches with failed recipients, for lists by time; it alone finds the batches that match. */
export const FAILURES_BY_TIME_INDEX = {
  app: 1,
  'work.channel': 1,
  'work.failedAt': 1,
  _id: 1,
  'work.failures': 1,
} as const;
/** Fields of the same index in order of push, for re-drives. */
export const FAILURES_BY_PUSH_INDEX = {
  app: 1,
  _id: 1,
  'work.failedAt': 1,
  'work.channel': 1,
  'work.failures': 1,
} as const;

/** Indexes on batches with failed recipients; they contain no document while nothing fails. */
const FAILURE_INDEXES: IndexDescription[] = [FAILURES_BY_TIME_INDEX, FAILURES_BY_PUSH_INDEX].map(
  (key) => ({ key, partialFilterExpression: { 'work.failedAt': { $exists: true } } }),
);

/** Fields of the index on the devices that are there, by the time at which they were last seen. */
export const IDLE_DEVICES_INDEX = { app: 1, lastActiveAt: 1, _id: 1 } as const;

/** Index that finds what is to be reported to a webhook; it contains no document of an app without webhooks. */
const OUTBOX_INDEX: IndexDescription = {
  key: NOTIFY_INDEX,
  partialFilterExpression: { 'notify.at': { $exists: true } },
};

/** Indexes that find the pushes of a device in pushes and batches. */
const INDEXES_OF_DEVICES: IndexDescription[] = [
  { key: DEVICE_INDEX, partialFilterExpression: { tokenHashes: { $exists: true } } },
  { key: TOKEN_RANGE_INDEX, partialFilterExpression: { firstToken: { $exists: true } } },
];

/**
 * Indexes besides `_id`. Partial indexes contain only documents that still have something to do, so they stay small
 * however many pushes are stored.
 */
const INDEXES: Record<string, IndexDescription[]> = {
  accounts: [
    { key: { suspendedAt: 1 }, partialFilterExpression: { suspendedAt: { $exists: true } } },
  ],
  apps: [
    { key: { account: 1 } },
    { key: { pausedAt: 1 }, partialFilterExpression: { pausedAt: { $exists: true } } },
    {
      key: { pruneAfterDays: 1, _id: 1 },
      partialFilterExpression: { pruneAfterDays: { $exists: true } },
    },
    {
      key: { bundleIds: 1 },
      unique: true,
      partialFilterExpression: { bundleIds: { $exists: true } },
    },
    {
      key: { webHosts: 1 },
      unique: true,
      partialFilterExpression: { webHosts: { $exists: true } },
    },
  ],
  credentials: [
    { key: { app: 1, channel: 1 } },
    {
      key: { 'refused.until': 1 },
      partialFilterExpression: { 'refused.until': { $exists: true } },
    },
  ],
  keys: [
    // Read by every request.
    { key: { digest: 1 }, unique: true },
    { key: { app: 1 } },
  ],
  devices: [
    { key: { app: 1, _id: 1 } },
    // A provider address of an app belongs to one device, and is kept by its former devices (store/former-devices).
    {
      key: { app: 1, 'provider.address': 1, 'provider.formerOf': 1 },
      unique: true,
      partialFilterExpression: { 'provider.address': { $exists: true } },
    },
    {
      key: { app: 1, deviceIdHash: 1, registeredAt: 1 },
      partialFilterExpression: { deviceIdHash: { $exists: true } },
    },
    { key: { replacedBy: 1 }, partialFilterExpression: { replacedBy: { $exists: true } } },
    { key: { replacedAt: 1 }, partialFilterExpression: { replacedAt: { $exists: true } } },
    // Read for the ways of subscribers: it has no entry of an app whose devices all have the way of their platform.
    { key: { app: 1, way: 1, platform: 1 }, partialFilterExpression: { way: 'fcm' } },
    // Recent deletions: a batch may have written rows for one of these devices.
    { key: { deletedAt: 1, _id: 1 }, partialFilterExpression: { deletedAt: { $exists: true } } },
    { key: { leaving: 1, _id: 1 }, partialFilterExpression: { leaving: true } },
    { key: { expiresAt: 1 }, partialFilterExpression: { expiresAt: { $exists: true } } },
    // Records of deleted devices stay: without the filter they would be read each time.
    { key: IDLE_DEVICES_INDEX, partialFilterExpression: { deletedAt: null, replacedBy: null } },
    OUTBOX_INDEX,
  ],
  pushes: [
    { key: PUSHES_OF_APP_INDEX },
    { key: { dueAt: 1 }, partialFilterExpression: { state: 'scheduled' } },
    { key: { 'fan.at': 1 }, partialFilterExpression: { 'fan.done': false } },
    {
      key: DUE_PUSHES_INDEX,
      partialFilterExpression: { 'work.state': 'ready' },
    },
    { key: { expiresAt: 1, _id: 1 }, partialFilterExpression: { state: 'open' } },
    { key: { acceptedAt: 1 }, partialFilterExpression: { state: 'accepting' } },
    { key: { ending: 1 }, partialFilterExpression: { ending: { $exists: true } } },
    // Read for newer pushes of a collapse key.
    {
      key: { app: 1, collapse: 1, _id: 1 },
      partialFilterExpression: { collapse: { $exists: true } },
    },
    // An idempotency key of an app belongs to one push (store/idempotency-keys).
    {
      key: { app: 1, 'idempotency.key': 1 },
      unique: true,
      partialFilterExpression: { 'idempotency.key': { $exists: true } },
    },
    { key: { purgeAt: 1 }, partialFilterExpression: { purgeAt: { $exists: true } } },
    ...FAILURE_INDEXES,
    ...INDEXES_OF_DEVICES,
    OUTBOX_INDEX,
  ],
  batches: [
    {
      key: DUE_BATCHES_INDEX,
      partialFilterExpression: { 'work.state': { $in: ['waiting', 'ready'] } },
    },
    { key: BATCHES_OF_PUSH_INDEX },
    // Finds the batch of one recipient. Partial, so that queries by push and state don't consider it.
    { key: RECIPIENT_INDEX, partialFilterExpression: { from: { $exists: true } } },
    {
      key: UNCLOSED_BATCHES_INDEX,
      partialFilterExpression: {
        'work.state': { $in: ['waiting', 'ready'] },
        // Without it, queries by app and state alone would consider the index.
        from: { $exists: true },
      },
    },
    ...FAILURE_INDEXES,
    ...INDEXES_OF_DEVICES,
    OUTBOX_INDEX,
  ],
  subscriptions: [
    { key: { token: 1 } },
    { key: { since: 1 }, partialFilterExpression: { pending: { $exists: true } } },
  ],
  anchors: [{ key: { at: 1 }, expireAfterSeconds: 600 }],
  inbox: [{ key: { push: 1, _id: 1 } }],
  webhooks: [
    { key: { app: 1, createdAt: 1 } },
    // Of two calls that add a webhook at once, one gets the slot.
    { key: { app: 1, slot: 1 }, unique: true },
  ],
  webhook_requests: [
    { key: { webhook: 1, _id: 1 } },
    { key: { at: 1 }, expireAfterSeconds: WEBHOOK_REQUEST_SECONDS },
  ],
  redrives: [
    // An app has one re-drive at a time: two of them could send to the same recipients.
    { key: { app: 1 }, unique: true, partialFilterExpression: { state: 'running' } },
    { key: { createdAt: 1 }, partialFilterExpression: { state: 'running' } },
    { key: { endedAt: 1 }, expireAfterSeconds: REDRIVE_SECONDS },
  ],
  operators: [
    { key: { nameKey: 1 }, unique: true },
    {
      key: { openId: 1 },
      unique: true,
      partialFilterExpression: { openId: { $exists: true } },
    },
    // One operator comes from the set-up link, however many of its links are redeemed at once.
    { key: { first: 1 }, unique: true, partialFilterExpression: { first: true } },
  ],
  sessions: [
    { key: { operator: 1 } },
    { key: { seenAt: 1 }, expireAfterSeconds: SESSION_IDLE_MS / 1_000 },
    { key: { expiresAt: 1 }, expireAfterSeconds: 0 },
  ],
  invites: [{ key: { expiresAt: 1 }, expireAfterSeconds: 0 }],
  operatorTokens: [
    // Read by every request with a token.
    { key: { digest: 1 }, unique: true },
    { key: { by: 1 }, partialFilterExpression: { by: { $exists: true } } },
    { key: { expiresAt: 1 }, expireAfterSeconds: 0 },
  ],
  audit: [
    { key: { of: 1 }, partialFilterExpression: { of: { $exists: true } } },
    { key: { 'actor.id': 1, _id: -1 } },
    { key: { 'actor.name': 1, _id: -1 } },
    { key: { action: 1, _id: -1 } },
    { key: { account: 1, _id: -1 }, partialFilterExpression: { account: { $exists: true } } },
    { key: { at: 1 }, expireAfterSeconds: AUDIT_SECONDS },
  ],
};

/** Creates the indexes that are missing. */
export async function ensureIndexes(db: Db): Promise<void> {
  for (const [collection, indexes] of Object.entries(INDEXES)) {
    await db.collection(collection).createIndexes(indexes);
  }
}

/** Lists the indexes that are missing, each as `collection(fields)`. */
export async function missingIndexes(db: Db): Promise<string[]> {
  const missing: string[] = [];
  for (const [collection, indexes] of Object.entries(INDEXES)) {
    const existing = new Set(await listIndexKeys(db, collection));
    for (const { key } of indexes) {
      if (!existing.has(JSON.stringify(key))) {
        missing.push(`${collection}(${Object.keys(key).join(', ')})`);
      }
    }
  }
  return missing;
}

async function listIndexKeys(db: Db, collection: string): Promise<string[]> {
  try {
    const indexes = await db.collection(collection).listIndexes().toArray();
    return indexes.map((index) => JSON.stringify(index.key));
  } catch (error) {
    if (error instanceof MongoServerError && error.codeName === 'NamespaceNotFound') return [];
    throw error;
  }
}
