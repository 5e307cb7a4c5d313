import { SettingsError } from '@carillon/core/settings-error';
import type { Tracer } from '@carillon/core/tracing';
import { type Db, MongoClient, type MongoClientOptions } from 'mongodb';
import { createAccounts } from './accounts.ts';
import { createApps } from './apps.ts';
import { createAudit } from './audit.ts';
import { createBatchTable } from './batch-table.ts';
import { createBatches } from './batches.ts';
import { type Clock, createClock } from './clock.ts';
import { createCollapse } from './collapse.ts';
import { countFailures } from './count-failures.ts';
import { createCredentials } from './credentials.ts';
import { createDeletedDevices } from './deleted-devices.ts';
import { createDevices } from './devices.ts';
import { createErasure } from './erasure.ts';
import { createFailedRecipients } from './failed-recipients.ts';
import { createFanOuts } from './fan-outs.ts';
import { createReceipts } from './final-outcomes.ts';
import { createFormerDevices } from './former-devices.ts';
import { createIdleDevices } from './idle-devices.ts';
import { createImports } from './imports.ts';
import { createInbox } from './inbox.ts';
import { createInboxQuota } from './inbox-quota.ts';
import { createInvites } from './invites.ts';
import { createKeys } from './keys.ts';
import { createKnownWebhooks, type KnownWebhooks } from './known-webhooks.ts';
import { missingIndexes } from './migrate.ts';
import { createOperatorTokens } from './operator-tokens.ts';
import { createOperators } from './operators.ts';
import { createPageCursors } from './page-cursors.ts';
import { createProxyWarnings } from './proxy-warnings.ts';
import { createPushCompletion } from './push-completion.ts';
import { createPushes } from './pushes.ts';
import { createRedrives } from './redrives.ts';
import { createRetention } from './retention.ts';
import { createSchema, type MigrationOptions, migrate } from './schema.ts';
import { createSessions } from './sessions.ts';
import { createSubscriptions } from './subscriptions.ts';
import { createSuspensions, type Suspensions } from './suspensions.ts';
import { createTopicChangeLocks } from './topic-change-locks.ts';
import { createTopics } from './topics.ts';
import { type MongoTopology, readTopology } from './topology.ts';

/** Maximum wait of an API client for an error while MongoDB is unavailable (guarantee G15). */
const RESPONSE_TIMEOUT_MS = 3_000;
/** Maximum connections of a process without kept connections; they are opened when they are needed. */
const MAX_CONNECTIONS = 32;
/**
 * Connections of a process whose clients wait. Its writes are grouped, so that it has at most about ten statements in
 * progress.
 */
export const KEPT_CONNECTIONS = 16;
/** Connections that an API process keeps for the requests of devices only. */
export const DEVICE_CONNECTIONS = 8;

/** All collections over one connection pool. */
export type Store = Awaited<ReturnType<typeof connectStore>>;

/**
 * Connects to MongoDB. The default write concern is majority and journal, for every write that a delivery depends on;
 * only claims and lease renewals use a weaker one.
 *
 * @param uri includes the name of the database
 * @param timeoutMs longest wait for a response (guarantee G15: no false success, no long wait)
 * @param checkoutMs longest wait for a free connection of the pool
 * @param connectMs longest wait for a server, and for a connection to it
 * @param keptConnections opened at the start and kept, without further ones under load: a connect that takes longer than
 *   its limit fails the request that waits for it and clears the pool
 * @param shared parts of a store of the same process that this store uses too, instead of reading the same again
 * @param tracer records the batched writes of traced pushes
 * @throws SettingsError if the URI is wrong; the driver's error if MongoDB can't be reached, and then nothing stays open
 */
export async function connectStore({
  uri,
  appName,
  timeoutMs = 5_000,
  checkoutMs = timeoutMs,
  connectMs = 2_000,
  keptConnections,
  shared,
  tracer,
}: {
  uri: string;
  appName: string;
  timeoutMs?: number;
  checkoutMs?: number;
  connectMs?: number;
  keptConnections?: number;
  shared?: SharedParts | undefined;
  tracer?: Tracer | undefined;
}) {
  const client = createClient(uri, {
    appName,
    socketTimeoutMS: timeoutMs,
    waitQueueTimeoutMS: checkoutMs,
    connectTimeoutMS: connectMs,
    serverSelectionTimeoutMS: connectMs,
    // A process with a waiting client reports the first failure; a retry would double the wait.
    retryReads: timeoutMs > RESPONSE_TIMEOUT_MS,
    minPoolSize: keptConnections ?? 0,
    maxPoolSize: keptConnections ?? MAX_CONNECTIONS,
    writeConcern: { w: 'majority', journal: true },
    // The driver encodes all text that is stored. Validating it again takes ten times as long as decoding it.
    enableUtf8Validation: false,
  });
  const { db, parts } = await connect(client, shared);
  const collections = createCollections(db, parts, tracer);
  return {
    /** The database, for the packages that read and write further collections of it. */
    db,
    ...collections,
    ...createServerCommands(db),
    close: async (): Promise<void> => {
      if (shared === undefined) stopRefreshing(parts);
      await client.close();
    },
  };
}

/** Parts of a store that read MongoDB at intervals and keep what they read. */
interface SharedParts {
  clock: Clock;
  suspensions: Suspensions;
  knownWebhooks: KnownWebhooks;
}

async function createParts(db: Db): Promise<SharedParts> {
  const clock = await createClock(db);
  return {
    clock,
    suspensions: createSuspensions(db),
    knownWebhooks: createKnownWebhooks(db, clock),
  };
}

function stopRefreshing({ clock, suspensions, knownWebhooks }: SharedParts): void {
  clock.stop();
  suspensions.stop();
  knownWebhooks.stop();
}

function createCollections(db: Db, parts: SharedParts, tracer?: Tracer) {
  const { clock, suspensions, knownWebhooks } = parts;
  const subscriptions = createSubscriptions(db);
  const receipts = createReceipts(db, clock);
  const batches = createBatches(db);
  const formerDevices = createFormerDevices(db, { subscriptions, batches, receipts, clock });
  return {
    accounts: createAccounts(db, clock),
    apps: createApps(db, clock),
    keys: createKeys(db, clock),
    credentials: createCredentials(db, clock),
    devices: createDevices(db, clock, knownWebhooks),
    deletedDevices: createDeletedDevices(db, {
      ...{ subscriptions, receipts, knownWebhooks, formerDevices, clock },
    }),
    idleDevices: createIdleDevices(db),
    subscriptions,
    imports: createImports(db, clock),
    erasure: createErasure(db),
    topics: createTopics(db),
    topicChangeLocks: createTopicChangeLocks(db),
    pageCursors: createPageCursors(db),
    pushes: createPushes(db, clock, suspensions, tracer),
    batches,
    fanOuts: createFanOuts(db, suspensions),
    batchTable: createBatchTable(db, suspensions, tracer),
    failedRecipients: createFailedRecipients(db),
    redrives: createRedrives(db),
    pushCompletion: createPushCompletion(db, clock),
    inbox: createInbox(db),
    inboxQuota: createInboxQuota(db),
    collapse: createCollapse(db),
    retention: createRetention(db),
    receipts,
    clock,
    suspensions,
    knownWebhooks,
    ...createConsoleCollections(db, clock),
    proxyWarnings: createProxyWarnings(db),
    schema: createSchema(db),
  };
}

/** Creates the collections that only the console uses. */
function createConsoleCollections(db: Db, clock: Clock) {
  return {
    operators: createOperators(db, clock),
    sessions: createSessions(db),
    invites: createInvites(db),
    operatorTokens: createOperatorTokens(db),
    audit: createAudit(db, clock),
  };
}

function createServerCommands(db: Db) {
  return {
    /** Updates the schema: indexes and steps. Idempotent; of several processes at once one works, the others wait. */
    migrate: (options?: MigrationOptions) => migrate(db, options),
    /** Lists the indexes that `migrate` would create, each as `collection(fields)`. */
    missingIndexes: () => missingIndexes(db),
    /** Returns the server's version. */
    version: async (): Promise<string> => String((await db.command({ buildInfo: 1 })).version),
    /**
     * Returns the bytes free and in total on the server's data volume; undefined where the server doesn't report them.
     */
    diskSpace: async (): Promise<{ free: number; total: number } | undefined> => {
      const { fsTotalSize: total, fsUsedSize: used } = await db.command({ dbStats: 1 });
      return total > 0 ? { free: total - used, total } : undefined;
    },
    /** Returns what servers the connection string leads to, and the state of each. */
    topology: (): Promise<MongoTopology> => readTopology(db),
    /** Resolves when the server responds. */
    ping: async (): Promise<void> => {
      await db.command({ ping: 1 });
    },
  };
}

function createClient(uri: string, options: MongoClientOptions): MongoClient {
  try {
    return new MongoClient(uri, options);
  } catch (error) {
    // The driver's texts name parts of the URI, though not the password.
    throw new SettingsError(`Wrong environment:\nMONGODB_URI: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

async function connect(client: MongoClient, shared?: SharedParts) {
  try {
    await client.connect();
    const db = countFailures(client.db());
    return { db, parts: shared ?? (await createParts(db)) };
  } catch (error) {
    await client.close();
    throw error;
  }
}
