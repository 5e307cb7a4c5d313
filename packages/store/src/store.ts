import { MongoClient } from 'mongodb';
import { createAccounts } from './accounts.ts';
import { createAnchors } from './anchors.ts';
import { createApps } from './apps.ts';
import { createBatches } from './batches.ts';
import { createCleaning } from './cleaning.ts';
import { createClock } from './clock.ts';
import { createCollapse } from './collapse.ts';
import { createCredentials } from './credentials.ts';
import { createDevices } from './devices.ts';
import { createEndings } from './endings.ts';
import { createFanOuts } from './fan-outs.ts';
import { createFates } from './fates.ts';
import { createFullInboxes } from './full-inboxes.ts';
import { createInbox } from './inbox.ts';
import { createKeys } from './keys.ts';
import { ensureIndexes, missingIndexes } from './migrate.ts';
import { createPending } from './pending.ts';
import { createPushes } from './pushes.ts';
import { createReceipts } from './receipts.ts';
import { createSubscriptions } from './subscriptions.ts';
import { createTopics } from './topics.ts';
import { createWorkTable } from './work-table.ts';
import { createUnfinishedWork } from './work-unfinished.ts';

/** The longest that a caller of the API may wait for the word that MongoDB is away (guarantee G15). */
const ANSWER_WITHIN_MS = 3_000;

/** All collections, over one connection pool. */
export type Store = Awaited<ReturnType<typeof connectStore>>;

/**
 * Connects to MongoDB. Everything that carries a debt is written with majority and journal, which is the
 * default here; only claims and lease renewals ask for less.
 *
 * @param uri with the database's name
 * @param timeoutMs longest wait for an answer, a connection or a server (guarantee G15: no false success, no long wait)
 */
export async function connectStore({
  uri,
  appName,
  timeoutMs = 5_000,
}: {
  uri: string;
  appName: string;
  timeoutMs?: number;
}) {
  const client = new MongoClient(uri, {
    appName,
    socketTimeoutMS: timeoutMs,
    waitQueueTimeoutMS: timeoutMs,
    connectTimeoutMS: 2_000,
    serverSelectionTimeoutMS: 2_000,
    // Whoever has somebody waiting answers with the first failure; a second try would double the wait.
    retryReads: timeoutMs > ANSWER_WITHIN_MS,
    maxPoolSize: 32,
    writeConcern: { w: 'majority', journal: true },
  });
  await client.connect();
  const db = client.db();
  const clock = await createClock(db);
  return {
    accounts: createAccounts(db, clock),
    apps: createApps(db, clock),
    keys: createKeys(db, clock),
    credentials: createCredentials(db, clock),
    devices: createDevices(db, clock),
    subscriptions: createSubscriptions(db),
    topics: createTopics(db),
    anchors: createAnchors(db),
    pushes: createPushes(db, clock),
    batches: createBatches(db),
    fanOuts: createFanOuts(db),
    work: { ...createWorkTable(db), ...createUnfinishedWork(db) },
    fates: createFates(db),
    pending: createPending(db),
    endings: createEndings(db, clock),
    inbox: createInbox(db),
    fullInboxes: createFullInboxes(db),
    collapse: createCollapse(db),
    cleaning: createCleaning(db),
    receipts: createReceipts(db),
    clock,
    /** Creates what indexes are missing; harmless when repeated and from several processes. */
    migrate: () => ensureIndexes(db),
    /** The indexes that `migrate` would create, each as `collection(fields)`. */
    missingIndexes: () => missingIndexes(db),
    /** The server's version. */
    version: async (): Promise<string> => String((await db.command({ buildInfo: 1 })).version),
    /** Resolves when the server answers. */
    ping: async (): Promise<void> => {
      await db.command({ ping: 1 });
    },
    close: async (): Promise<void> => {
      clock.stop();
      await client.close();
    },
  };
}
