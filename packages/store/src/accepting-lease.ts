import type { Collection, Document, Filter } from 'mongodb';
import { fromNow } from './clock.ts';
import type { PushDocument } from './documents.ts';

/** Lease of a process on a push of many batches that it is accepting. */
export const ACCEPTING_LEASE_MS = 3_000;

/** Retention of an abandoned push: batches that its owner still writes are removed with it. */
const ABANDONED_RETENTION_MS = 3_600_000;

/** Expression that is true if the lease of a push in state `accepting` has ended, by MongoDB's clock. */
export const IS_LEASE_EXPIRED: Document = { $lt: ['$acceptingUntil', '$$NOW'] };

/**
 * Update that abandons a push in state `accepting`: its owner can't commit it any more, and its idempotency key is free
 * at once.
 */
export const ABANDON_UPDATE: Document[] = [
  { $set: { state: 'abandoned', purgeAt: fromNow(ABANDONED_RETENTION_MS) } },
  { $unset: ['acceptingUntil', 'idempotency'] },
];

/**
 * Abandons a push in state `accepting` that a filter matches.
 *
 * @returns false if there is none
 */
export async function abandonOne(
  pushes: Collection<PushDocument>,
  filter: Filter<PushDocument>,
): Promise<boolean> {
  const { modifiedCount } = await pushes.updateOne(
    { ...filter, state: 'accepting' },
    ABANDON_UPDATE,
  );
  return modifiedCount === 1;
}
