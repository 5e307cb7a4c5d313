import type { Document } from 'mongodb';
import type { Batch } from './documents.ts';

/**
 * Claims in a row that lapsed, after which a batch is suspected of ending its workers: none of them settled it, saved
 * progress or released it. Batches that shared a process with the cause are suspected as well, so the count stays here until
 * a claim lapses whose worker processed nothing else.
 */
export const SUSPECTED_AFTER = 5;

/** Checks whether a batch is to be processed alone. */
export function isSuspected({ lapsed = 0 }: Pick<Batch, 'lapsed'>): boolean {
  return lapsed >= SUSPECTED_AFTER;
}

/** Builds the expression of a claim's `work.lapsed`: a claim that is still stored was neither settled nor released. */
export function buildLapsedCount(isUnclaimed: Document): Document {
  return { $cond: [isUnclaimed, '$work.lapsed', countLapse()] };
}

/** Effect of a release on the number of lapsed claims. */
export interface LapseRule {
  /** Keeps the number, which a release within the lease removes otherwise. */
  staysSuspected?: boolean;
  /** Does not count a lease that has ended: something else than the batch was the reason. */
  ignoresLapse?: boolean;
}

/**
 * Builds the expression of a release's `work.lapsed`. A worker that was blocked for longer than its lease may still be the
 * first to write: with one worker no other has claimed the batch. Such a claim has lapsed, by MongoDB's clock.
 *
 * @param staysSuspected expression of the field of the release's {@link LapseRule}
 * @param ignoresLapse likewise
 */
export function buildReleasedCount(staysSuspected: Document, ignoresLapse: Document): Document {
  const isCounted = { $and: [{ $not: ignoresLapse }, { $lte: ['$work.at', '$$NOW'] }] };
  const withinLease = { $cond: [staysSuspected, '$work.lapsed', '$$REMOVE'] };
  return { $cond: [isCounted, countLapse(), withinLease] };
}

/** Builds the number after one more lapsed claim. */
function countLapse(): Document {
  const lapsed = { $ifNull: ['$work.lapsed', 0] };
  const counts = {
    $or: [{ $lt: [lapsed, SUSPECTED_AFTER] }, { $eq: ['$work.alone', '$work.claim'] }],
  };
  return { $cond: [counts, { $add: [lapsed, 1] }, lapsed] };
}
