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
  const lapsed = { $ifNull: ['$work.lapsed', 0] };
  const counts = {
    $or: [{ $lt: [lapsed, SUSPECTED_AFTER] }, { $eq: ['$work.alone', '$work.claim'] }],
  };
  const next = { $cond: [counts, { $add: [lapsed, 1] }, lapsed] };
  return { $cond: [isUnclaimed, '$work.lapsed', next] };
}
