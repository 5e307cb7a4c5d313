import { type Db, type IndexDescription, MongoServerError } from 'mongodb';

/**
 * The indexes beside `_id`, each with what reads it. Partial indexes hold only documents that still owe
 * something, so they stay small however many pushes are kept.
 */
const INDEXES: Record<string, IndexDescription[]> = {
  apps: [
    { key: { account: 1 } },
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
  credentials: [{ key: { app: 1, channel: 1 } }],
  keys: [
    // The look-up of every request.
    { key: { digest: 1 }, unique: true },
    { key: { app: 1 } },
  ],
  devices: [
    { key: { app: 1, _id: 1 } },
    {
      key: { app: 1, 'provider.address': 1 },
      unique: true,
      partialFilterExpression: { 'provider.address': { $exists: true } },
    },
  ],
  pushes: [
    { key: { app: 1, _id: 1 } },
    { key: { dueAt: 1 }, partialFilterExpression: { state: 'scheduled' } },
    { key: { 'fan.at': 1 }, partialFilterExpression: { 'fan.done': false } },
    { key: { 'work.at': 1 }, partialFilterExpression: { 'work.state': 'ready' } },
    { key: { expiresAt: 1, _id: 1 }, partialFilterExpression: { state: 'open' } },
    { key: { acceptedAt: 1 }, partialFilterExpression: { state: 'accepting' } },
    { key: { ending: 1 }, partialFilterExpression: { ending: { $exists: true } } },
    // Newer pushes of the same collapse key.
    {
      key: { app: 1, collapse: 1, _id: 1 },
      partialFilterExpression: { collapse: { $exists: true } },
    },
    {
      key: { app: 1, 'idempotency.key': 1 },
      unique: true,
      partialFilterExpression: { 'idempotency.key': { $exists: true } },
    },
    { key: { purgeAt: 1 }, partialFilterExpression: { purgeAt: { $exists: true } } },
  ],
  batches: [
    { key: { 'work.at': 1 }, partialFilterExpression: { 'work.state': 'ready' } },
    { key: { push: 1, 'work.state': 1 } },
  ],
  subscriptions: [
    { key: { token: 1 } },
    { key: { since: 1 }, partialFilterExpression: { pending: { $exists: true } } },
  ],
  anchors: [{ key: { at: 1 }, expireAfterSeconds: 600 }],
  inbox: [{ key: { push: 1, _id: 1 } }],
};

/** Creates what indexes are missing. */
export async function ensureIndexes(db: Db): Promise<void> {
  for (const [collection, indexes] of Object.entries(INDEXES)) {
    await db.collection(collection).createIndexes(indexes);
  }
}

/** The indexes that aren't there, each as `collection(fields)`. */
export async function missingIndexes(db: Db): Promise<string[]> {
  const missing: string[] = [];
  for (const [collection, indexes] of Object.entries(INDEXES)) {
    const present = new Set(await presentKeys(db, collection));
    for (const { key } of indexes) {
      if (!present.has(JSON.stringify(key))) {
        missing.push(`${collection}(${Object.keys(key).join(', ')})`);
      }
    }
  }
  return missing;
}

async function presentKeys(db: Db, collection: string): Promise<string[]> {
  try {
    const indexes = await db.collection(collection).listIndexes().toArray();
    return indexes.map((index) => JSON.stringify(index.key));
  } catch (error) {
    if (error instanceof MongoServerError && error.codeName === 'NamespaceNotFound') return [];
    throw error;
  }
}
