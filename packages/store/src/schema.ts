import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Collection, Db } from 'mongodb';
import { fromNow } from './clock.ts';
import type { SchemaDocument } from './documents.ts';
import { ensureIndexes, missingIndexes } from './migrate.ts';
import { isDuplicateKey, isIndexMissing } from './mongo-errors.ts';

/** A change of the stored data that a release brings. */
export interface SchemaStep {
  /** The version of the schema after the step: 1, 2, 3 … without a gap. */
  version: number;
  description: string;
  /** Absent when the step is only indexes, which exist before any step runs. */
  run?: (db: Db) => Promise<void>;
}

/**
 * Steps of all releases, in order. Rules for a step, because services of the release that is being replaced run before,
 * during and after it, and because they must run again after a roll back:
 *
 * 1. It only adds (expand): fields, collections, indexes, values that the replaced release ignores or understands.
 * 2. What the replaced release reads or writes is removed or changed (contract) one release later at the earliest, when
 *    no supported release uses it.
 * 3. It may be repeated, and run twice at once: `migrate` is killed in the middle of it, or loses its lease while it is
 *    frozen. So it reads the remaining work from the data, in bounded batches, and stores no progress of its own.
 * 4. Its number and effect never change after a release. A correction is a further step.
 *
 * A new index needs no step, unless services must not start without it: every migration creates missing indexes first.
 */
export const SCHEMA_STEPS: readonly SchemaStep[] = [
  { version: 1, description: 'the collections and indexes of the first schema' },
  {
    version: 2,
    description: 'former devices keep their provider address',
    run: dropAddressIndex,
  },
];

/**
 * Version that the services of this release need. They also run beside a newer one. It is lower than the last step when
 * that step only contracts.
 */
export const REQUIRED_SCHEMA_VERSION = 2;

/** Result of a migration. */
export interface MigrationResult {
  /** The version of the schema after it. */
  version: number;
  /** Versions of the steps that it ran. */
  steps: number[];
  /** Indexes that it created, each as `collection(fields)`. */
  indexes: string[];
}

/** Settings of a migration. */
export interface MigrationOptions {
  steps?: readonly SchemaStep[];
  /** Time after which another migration continues the work of one that was killed. */
  leaseMs?: number;
  /** Called once if another migration runs. */
  onWait?: () => void;
}

const ID = 'schema';
/** Lease of a process that migrates. */
const LEASE_MS = 10_000;
const RENEWALS_PER_LEASE = 3;
/** Interval between two tries to get the lease. */
const WAIT_INTERVAL_MS = 250;

/** Reads the version of the schema. */
export function createSchema(db: Db) {
  const schema = schemaOf(db);
  const readVersion = async (): Promise<number> =>
    (await schema.findOne({ _id: ID }, { projection: { version: 1 } }))?.version ?? 0;
  return {
    /** Returns the version; 0 before the first migration. One read by `_id`. */
    readVersion,
    /** Checks that the services of this release can work. @throws when the schema is older than they need */
    async assertUsable(): Promise<void> {
      const version = await readVersion();
      if (version >= REQUIRED_SCHEMA_VERSION) return;
      throw new Error(
        `the schema in MongoDB has version ${version}, this release needs ${REQUIRED_SCHEMA_VERSION}; run carillon migrate`,
      );
    },
    /** Returns what `migrate` would do. A schema newer than this release needs nothing. */
    async status(): Promise<{
      version: number;
      latest: number;
      steps: number[];
      indexes: string[];
    }> {
      const version = await readVersion();
      const latest = latestOf(SCHEMA_STEPS);
      const steps = pendingSteps(SCHEMA_STEPS, version).map((step) => step.version);
      return { version, latest, steps, indexes: version > latest ? [] : await missingIndexes(db) };
    },
  };
}

/**
 * Updates the schema under a lease: creates the missing indexes, then runs the steps after the stored version and
 * records each. Waits while another migration holds the lease. Does nothing to a schema newer than this release.
 *
 * @throws when a statement fails or the lease is lost; the next migration continues with the first step not recorded
 */
export async function migrate(db: Db, options: MigrationOptions = {}): Promise<MigrationResult> {
  const { steps = SCHEMA_STEPS, leaseMs = LEASE_MS } = options;
  const lease = await acquireLease(schemaOf(db), leaseMs, options.onWait);
  const result = await runSteps(db, steps, lease).catch(async (error: unknown) => {
    // The next migration need not wait for the end of the lease.
    await lease.release().catch(() => undefined);
    throw error;
  });
  await lease.release();
  return result;
}

async function runSteps(
  db: Db,
  steps: readonly SchemaStep[],
  lease: MigrationLease,
): Promise<MigrationResult> {
  const result: MigrationResult = { version: lease.version, steps: [], indexes: [] };
  if (lease.version > latestOf(steps)) return result;
  result.indexes = await missingIndexes(db);
  await ensureIndexes(db);
  for (const { version, run } of pendingSteps(steps, lease.version)) {
    await run?.(db);
    await lease.recordVersion(version);
    result.steps.push(version);
    result.version = version;
  }
  return result;
}

interface MigrationLease {
  /** The version of the schema when the lease was acquired. */
  version: number;
  recordVersion(version: number): Promise<void>;
  release(): Promise<void>;
}

async function acquireLease(
  schema: Collection<SchemaDocument>,
  leaseMs: number,
  onWait: () => void = () => undefined,
): Promise<MigrationLease> {
  const owner = randomUUID();
  await ensureDocument(schema);
  let version = await tryAcquire(schema, owner, leaseMs);
  if (version === undefined) onWait();
  while (version === undefined) {
    await sleep(WAIT_INTERVAL_MS);
    version = await tryAcquire(schema, owner, leaseMs);
  }
  // A failed renewal is repeated by the next one; the next statement detects a lease that has lapsed.
  const renew = () =>
    schema.updateOne({ _id: ID, 'lease.owner': owner }, [
      { $set: { 'lease.until': fromNow(leaseMs) } },
    ]);
  const timer = setInterval(
    () => void renew().catch(() => undefined),
    leaseMs / RENEWALS_PER_LEASE,
  );
  async function updateOwn(update: object): Promise<void> {
    const { matchedCount } = await schema.updateOne({ _id: ID, 'lease.owner': owner }, update);
    if (matchedCount === 0) throw new Error('another migration has taken over; run it again');
  }
  return {
    version,
    recordVersion: (reached) => updateOwn({ $set: { version: reached } }),
    release() {
      clearInterval(timer);
      return updateOwn({ $unset: { lease: 1 } });
    },
  };
}

async function ensureDocument(schema: Collection<SchemaDocument>): Promise<void> {
  try {
    await schema.updateOne({ _id: ID }, { $setOnInsert: { version: 0 } }, { upsert: true });
  } catch (error) {
    // Another migration has inserted it in the same moment.
    if (!isDuplicateKey(error)) throw error;
  }
}

/** Acquires the lease if it is free or has lapsed by MongoDB's clock; returns the schema's version, else undefined. */
async function tryAcquire(
  schema: Collection<SchemaDocument>,
  owner: string,
  leaseMs: number,
): Promise<number | undefined> {
  const hasLapsed = { $expr: { $lte: [{ $ifNull: ['$lease.until', new Date(0)] }, '$$NOW'] } };
  const acquired = await schema.findOneAndUpdate(
    { _id: ID, ...hasLapsed },
    [{ $set: { lease: { owner: { $literal: owner }, until: fromNow(leaseMs) } } }],
    { returnDocument: 'after' },
  );
  return acquired?.version;
}

/**
 * Drops the unique index that gave an address to one device of an app. The replaced release needs no more than the index that
 * takes its place: both refuse a second device with the address.
 */
async function dropAddressIndex(db: Db): Promise<void> {
  try {
    await db.collection('devices').dropIndex('app_1_provider.address_1');
  } catch (error) {
    if (!isIndexMissing(error)) throw error;
  }
}

function schemaOf(db: Db): Collection<SchemaDocument> {
  return db.collection<SchemaDocument>('schema');
}

function latestOf(steps: readonly SchemaStep[]): number {
  return steps.at(-1)?.version ?? 0;
}

function pendingSteps(steps: readonly SchemaStep[], version: number): readonly SchemaStep[] {
  return steps.filter((step) => step.version > version);
}
