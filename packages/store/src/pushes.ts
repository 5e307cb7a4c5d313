import { createBatcher } from '@carillon/core/batcher';
import { type Tracer, traceBatches } from '@carillon/core/tracing';
import type { Collection, Db, Filter } from 'mongodb';
import { ACCEPTING_LEASE_MS, abandonOne } from './accepting-lease.ts';
import { bulkWriteErrors } from './bulk-write.ts';
import { type Clock, fromNow } from './clock.ts';
import type { PushDocument } from './documents.ts';
import { createIdempotencyKeys } from './idempotency-keys.ts';
import { SENDABLE_PUSH_FIELDS, type SendablePush } from './sendable-push.ts';
import type { Suspensions } from './suspensions.ts';

/** Maximum statements in flight: with a distant majority a push does not wait for the insert of those before it. */
const MAX_INSERTS = 4;

export const LISTED_FIELDS = {
  state: 1,
  acceptedAt: 1,
  dueAt: 1,
  expiresAt: 1,
  devices: 1,
  topics: 1,
  counts: 1,
  by: 1,
} as const;

/** A push in a list: without its payload and recipients. */
export type ListedPush = Pick<PushDocument, '_id' | keyof typeof LISTED_FIELDS>;

/** A push was not inserted: another one has its id. */
export class PushIdInUse extends Error {
  constructor() {
    super('the id of a new push is in use');
  }
}

/** Pushes: insert and commit, idempotency keys, reads. */
export function createPushes(
  db: Db,
  clock: Clock,
  suspensions: Pick<Suspensions, 'filterSuspended'>,
  tracer?: Tracer,
) {
  const pushes: Pushes = db.collection('pushes');
  return {
    ...createAcceptance(pushes, clock, tracer),
    ...createDuePushes(pushes, clock, suspensions),
    ...createSending(pushes, clock),
    ...createPushReads(pushes),
  };
}

type Pushes = Collection<PushDocument>;

/** Stores new pushes: each under its idempotency key, one of many batches under a lease until it is committed. */
function createAcceptance(pushes: Pushes, clock: Clock, tracer?: Tracer) {
  const insertBatched = createInsert(pushes, tracer);
  const { findConflict, ...keys } = createIdempotencyKeys(pushes, clock);

  function withLease(push: PushDocument): PushDocument {
    if (push.state !== 'accepting') return push;
    return { ...push, acceptingUntil: new Date(clock.now() + ACCEPTING_LEASE_MS) };
  }

  return {
    ...keys,
    /**
     * Inserts a push durably, with majority and journal (guarantee G1). Concurrent inserts share one journal sync. If an
     * earlier push has the same idempotency key, returns that push, durable as well, and inserts nothing. A push in state
     * `accepting` gets a lease of a few seconds; {@link renewAcceptingLease} renews it.
     *
     * @throws PushIdInUse if another push has the id
     */
    async insert(push: PushDocument): Promise<PushDocument | undefined> {
      const { _id, app, idempotency } = push;
      while (await insertBatched(withLease(push))) {
        const conflict = idempotency && (await findConflict(app, idempotency.key));
        if (conflict !== undefined) return conflict;
        if ((await pushes.countDocuments({ _id })) > 0) throw new PushIdInUse();
      }
      return undefined;
    },

    /**
     * Renews the lease of a push in state `accepting`.
     *
     * @returns false if it was abandoned
     */
    async renewAcceptingLease(id: string): Promise<boolean> {
      const { matchedCount } = await pushes.updateOne(
        { _id: id, state: 'accepting' },
        [{ $set: { acceptingUntil: fromNow(ACCEPTING_LEASE_MS) } }],
        { writeConcern: { w: 1, journal: false } },
      );
      return matchedCount === 1;
    },

    /**
     * Abandons a push for its owner.
     *
     * @returns false if it isn't in state `accepting` any more; it may have been committed
     */
    abandon: (id: string): Promise<boolean> => abandonOne(pushes, { _id: id }),

    /** Commits a push of many batches; false if it was abandoned meanwhile. */
    async commit(id: string, state: 'open' | 'scheduled'): Promise<boolean> {
      const { matchedCount } = await pushes.updateOne(
        { _id: id, state: 'accepting' },
        { $set: { state }, $unset: { acceptingUntil: true } },
      );
      return matchedCount === 1;
    },
  };
}

/** Creates the insert of a push. The insert returns undefined if it succeeds, true if the id or idempotency key is in use. */
function createInsert(pushes: Pushes, tracer?: Tracer) {
  return createBatcher<PushDocument, true | undefined>(
    'insert-push',
    traceBatches(
      tracer,
      'insert pushes',
      ({ trace }) => trace,
      async (documents) => {
        const errors = await bulkWriteErrors(
          pushes,
          documents.map((document) => ({ insertOne: { document } })),
        );
        return documents.map((_, index) => {
          const writeError = errors.get(index);
          return writeError?.duplicate ? true : writeError?.error;
        });
      },
    ),
    { maxBatchSize: 500, maxInFlight: MAX_INSERTS },
  );
}

/** Opens scheduled pushes. */
function createDuePushes(
  pushes: Pushes,
  clock: Clock,
  suspensions: Pick<Suspensions, 'filterSuspended'>,
) {
  async function listTraces(
    filter: Filter<PushDocument>,
    order: Record<string, 1>,
    limit: number,
  ): Promise<string[]> {
    const found = await pushes
      .find({ ...filter, trace: { $exists: true } }, { projection: { _id: 0, trace: 1 } })
      .sort(order)
      .limit(limit)
      .toArray();
    return found.flatMap(({ trace }) => trace ?? []);
  }

  return {
    /**
     * Opens scheduled pushes that are due by MongoDB's clock: never early. Pushes of suspended accounts are opened only
     * after their expiry, so that they end; those of paused apps are opened, and wait then. Returns how many.
     */
    async openDue(): Promise<number> {
      const isExpired = { expiresAt: { $lte: new Date(clock.now()) } };
      const { modifiedCount } = await pushes.updateMany(
        {
          state: 'scheduled',
          $expr: { $lte: ['$dueAt', '$$NOW'] },
          $or: [suspensions.filterSuspended(), isExpired],
        },
        { $set: { state: 'open' } },
      );
      return modifiedCount;
    },

    /** Lists the contexts of the traced pushes that {@link openDue} opens next, the earliest first. */
    listDueTraces: (limit: number): Promise<string[]> =>
      listTraces(
        {
          state: 'scheduled',
          $expr: { $lte: ['$dueAt', '$$NOW'] },
          ...suspensions.filterSuspended(),
        },
        { dueAt: 1 },
        limit,
      ),

    /** Lists the contexts of those of these pushes that are traced. */
    listTraces: (ids: readonly string[], limit: number): Promise<string[]> =>
      listTraces({ _id: { $in: [...ids] } }, { _id: 1 }, limit),
  };
}

/** Reads and checks right before a push is sent. */
function createSending(pushes: Pushes, clock: Clock) {
  const readBatched = createBatcher<string, SendablePush | undefined>(
    'read-push',
    async (ids) => {
      const found = await pushes
        .find<SendablePush>(
          { _id: { $in: ids } },
          { projection: SENDABLE_PUSH_FIELDS, batchSize: ids.length + 1 },
        )
        .toArray();
      const byId = new Map(found.map((push) => [push._id, push]));
      return ids.map((id) => byId.get(id));
    },
    { maxBatchSize: 500, maxInFlight: 4 },
  );

  return {
    /** Reads the fields that are needed to send these pushes; pushes that don't exist are left out. */
    async readForSending(ids: readonly string[]): Promise<Map<string, SendablePush>> {
      const sendablePushes = await Promise.all(ids.map((id) => readBatched(id)));
      return new Map(
        sendablePushes.flatMap((sendable): [string, SendablePush][] =>
          sendable ? [[sendable._id, sendable]] : [],
        ),
      );
    },

    /** Checks whether a push may still be sent (guarantees G6 and G8). */
    isSendable: (push: Pick<SendablePush, 'state' | 'sendUntil'>): boolean =>
      push.state === 'open' && clock.now() < push.sendUntil.getTime(),
  };
}

function createPushReads(pushes: Pushes) {
  return {
    /** Finds a push of an app with all its fields; undefined when it is absent or another app's. */
    find: async (app: string, id: string) => (await pushes.findOne({ _id: id, app })) ?? undefined,

    /** Finds a push of any app with all its fields, for the operators' command line. */
    inspect: async (id: string) => (await pushes.findOne({ _id: id })) ?? undefined,

    /** Finds the app of a push; undefined when it is absent. */
    findApp: async (id: string): Promise<string | undefined> =>
      (await pushes.findOne({ _id: id }, { projection: { app: 1 } }))?.app,

    /** Reads the payloads and times of an app's pushes. */
    payloads: (app: string, ids: readonly string[]) =>
      pushes
        .find(
          { _id: { $in: [...ids] }, app },
          {
            projection: {
              acceptedAt: 1,
              dueAt: 1,
              expiresAt: 1,
              finishedAt: 1,
              data: 1,
              state: 1,
              collapse: 1,
            },
            batchSize: ids.length + 1,
          },
        )
        .toArray(),
  };
}
