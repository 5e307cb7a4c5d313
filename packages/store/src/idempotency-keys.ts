import { createBatcher } from '@carillon/core/batcher';
import { pushStartMs } from '@carillon/core/ids';
import type { Collection, Db } from 'mongodb';
import { ACCEPTING_LEASE_MS, abandonOne, IS_LEASE_EXPIRED } from './accepting-lease.ts';
import { bulkWriteErrors, MAX_SLOW_INSERTS } from './bulk-write.ts';
import type { Clock } from './clock.ts';
import type { IdempotencyKeyDocument, PushDocument } from './documents.ts';

/** Time for which an idempotency key is valid (guarantee G2). */
const IDEMPOTENCY_TTL_MS = 86_400_000;
/** Time for which the document of a key is kept; longer than the key counts. */
export const KEY_DOCUMENT_SECONDS = 90_000;

/** A push with an idempotency key, before it is inserted. */
export type KeyedPush = Pick<PushDocument, '_id' | 'app'> & {
  idempotency: NonNullable<PushDocument['idempotency']>;
};

/** Result of a reservation: the id that the push must get, or the push that has the key. */
export type Reservation = { id: string } | { existing: PushDocument };

/*
 * A key has a document of its own, whose id is the app and the key: it is unique over all shards, while a unique index on the
 * pushes would hold on each shard by itself. Two writes, in this order:
 *
 * 1. The document of the key is inserted. It names the id that the push will get.
 * 2. The push is inserted under this id.
 *
 * A process that dies in between leaves a key without a push. Requests of the next seconds use the same id: of all that
 * insert a push under it, one succeeds. A later one, whose id would not sort by time, first inserts an abandoned push under the
 * id, so that the owner, if it was only suspended, can't insert its push any more; then it takes the key for an id of its own.
 */

/** Finds and reserves idempotency keys of pushes. */
export function createIdempotencyKeys(db: Db, clock: Pick<Clock, 'now'>) {
  const keys = db.collection<IdempotencyKeyDocument>('idempotency_keys');
  const pushes = db.collection<PushDocument>('pushes');
  const insertKey = createKeyInsert(keys);

  /**
   * Checks whether the key of a push still counts: for a day, if the push was committed or its owner is still accepting it.
   */
  async function isInUse({ _id, state, acceptedAt }: PushDocument): Promise<boolean> {
    if (state === 'abandoned' || acceptedAt.getTime() <= clock.now() - IDEMPOTENCY_TTL_MS)
      return false;
    return state !== 'accepting' || !(await abandonOne(pushes, { _id, $expr: IS_LEASE_EXPIRED }));
  }

  /** Returns a push if it has its key still, and waits until it is durable. */
  async function findInUse(push: PushDocument | null): Promise<PushDocument | undefined> {
    return push !== null && (await isInUse(push)) ? findDurable(pushes, push) : undefined;
  }

  /** Waits until the document of a key is durable. False: it has changed. */
  async function confirmKey({ _id, push }: IdempotencyKeyDocument): Promise<boolean> {
    const { matchedCount } = await keys.updateOne({ _id, push }, { $set: { push } });
    return matchedCount === 1;
  }

  /** Takes a key whose push does not count. Undefined: another request was faster. */
  async function takeOver(
    { _id, push: earlier }: IdempotencyKeyDocument,
    push: string,
  ): Promise<Reservation | undefined> {
    const { matchedCount } = await keys.updateOne(
      { _id, push: earlier },
      { $set: { push, at: new Date(clock.now()) } },
    );
    return matchedCount === 1 ? { id: push } : undefined;
  }

  /** Decides which push has a key that is stored already. Undefined: the key has changed meanwhile. */
  async function resolve(
    stored: IdempotencyKeyDocument,
    { _id, app }: KeyedPush,
  ): Promise<Reservation | undefined> {
    const earlier = await pushes.findOne({ _id: stored.push });
    if (earlier === null) {
      if (haveSameStart(stored.push, _id))
        return (await confirmKey(stored)) ? { id: stored.push } : undefined;
      const isPrevented = await preventInsert(pushes, app, stored.push, new Date(clock.now()));
      return isPrevented ? takeOver(stored, _id) : undefined;
    }
    if (!(await isInUse(earlier))) return takeOver(stored, _id);
    const existing = await findDurable(pushes, earlier);
    return existing !== undefined && (await confirmKey(stored)) ? { existing } : undefined;
  }

  return {
    /**
     * Finds the push with an app's idempotency key and waits until it is durable; undefined when the key is free. A push in
     * state `accepting` whose lease has ended is abandoned, which frees its key.
     */
    async findByIdempotencyKey(app: string, key: string): Promise<PushDocument | undefined> {
      const stored = await keys.findOne({ _id: keyId(app, key) });
      if (stored !== null) {
        const found = await findInUse(await pushes.findOne({ _id: stored.push }));
        if (found !== undefined && (await confirmKey(stored))) return found;
      }
      // A process of the previous release inserts pushes without a document of their key.
      return findInUse(await pushes.findOne({ app, 'idempotency.key': key }));
    },

    /**
     * Reserves the idempotency key of a push durably before the push is inserted.
     *
     * @returns the id that the push must be inserted with, or the earlier push that has the key, durable as well
     */
    async reserveKey(push: KeyedPush): Promise<Reservation> {
      const _id = keyId(push.app, push.idempotency.key);
      for (;;) {
        const document = { _id, push: push._id, at: new Date(clock.now()) };
        if (await insertKey(document)) return { id: push._id };
        const stored = await keys.findOne({ _id });
        const reservation = stored === null ? undefined : await resolve(stored, push);
        if (reservation !== undefined) return reservation;
      }
    },

    /**
     * Finds the cause of a failed insert of a push: a push with the same id or key, durable. Undefined: nothing does
     * any more. An abandoned push means that another request has taken the key.
     */
    async findConflict({ _id, app, idempotency }: KeyedPush): Promise<PushDocument | undefined> {
      const same = await pushes.findOne({ _id });
      if (same !== null)
        return (await isInUse(same)) ? findDurable(pushes, same) : { ...same, state: 'abandoned' };
      // The unique index of the previous release, which may run beside it.
      const earlier = await pushes.findOne({ app, 'idempotency.key': idempotency.key });
      const found = await findInUse(earlier);
      if (earlier !== null && found === undefined)
        await pushes.updateOne({ _id: earlier._id }, { $unset: { idempotency: true } });
      return found;
    },
  };
}

function keyId(app: string, key: string): string {
  return `${app}:${key}`;
}

/** Checks whether two pushes begin so close together that either may have the id of the other: ids sort by time. */
function haveSameStart(a: string, b: string): boolean {
  return Math.abs(pushStartMs(a) - pushStartMs(b)) < ACCEPTING_LEASE_MS;
}

/** Creates the insert of a key. False: it is stored already. Concurrent inserts share one journal sync. */
function createKeyInsert(keys: Collection<IdempotencyKeyDocument>) {
  return createBatcher<IdempotencyKeyDocument, boolean>(
    'reserve-idempotency-key',
    async (documents) => {
      const errors = await bulkWriteErrors(
        keys,
        documents.map((document) => ({ insertOne: { document } })),
      );
      return documents.map((_, index) => {
        const failed = errors.get(index);
        return failed === undefined || (failed.duplicate ? false : failed.error);
      });
    },
    { maxBatchSize: 500, maxSlow: MAX_SLOW_INSERTS },
  );
}

/**
 * Waits until a push that was read is durable; undefined if a failover has undone its insert. The request that inserted
 * it may have failed while it waited for this, and a repeated request must not report it as accepted (guarantee G1).
 */
async function findDurable(
  pushes: Collection<PushDocument>,
  push: PushDocument,
): Promise<PushDocument | undefined> {
  // A push in state `accepting` is not reported as accepted.
  if (push.state === 'accepting') return push;
  // A write that changes nothing waits for the write concern of every write before it.
  const { matchedCount } = await pushes.updateOne({ _id: push._id }, { $set: { app: push.app } });
  return matchedCount === 1 ? push : undefined;
}

/** Inserts an abandoned push in the place of one that was not inserted. False: it exists by now. */
async function preventInsert(
  pushes: Collection<PushDocument>,
  app: string,
  _id: string,
  now: Date,
): Promise<boolean> {
  const document: PushDocument = {
    ...{ _id, app, state: 'abandoned', acceptedAt: now, expiresAt: now, sendUntil: now },
    ...{ data: '', devices: 0, fan: { seq: 0, next: 0, done: true } },
    purgeAt: new Date(now.getTime() + IDEMPOTENCY_TTL_MS),
  };
  const errors = await bulkWriteErrors(pushes, [{ insertOne: { document } }]);
  const failed = errors.get(0);
  if (failed !== undefined && !failed.duplicate) throw failed.error;
  return failed === undefined;
}
