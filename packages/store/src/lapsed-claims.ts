import type { Document } from 'mongodb';
import type { Batch } from './documents.ts';

/**
 * Number of claims in a row that lapsed after which a batch is suspected of ending its workers: none of them settled
 * it, saved progress or released it. Batches that shared a process with the cause are suspected as well.
 */
export const SUSPECTED_AFTER = 5;

/** Number of lapsed claims plus one. */
const ONE_MORE = { $add: [{ $ifNull: ['$work.lapsed', 0] }, 1] };

/** Checks whether the recipients of a batch are to be tried one after the other. */
export function isSuspected({ lapsed = 0 }: Pick<Batch, 'lapsed'>): boolean {
  return lapsed >= SUSPECTED_AFTER;
}

/** Builds the expression of a claim's `work.lapsed`: a claim that is still stored was neither settled nor released. */
export function buildLapsedCount(isUnclaimed: Document): Document {
  return { $cond: [isUnclaimed, '$work.lapsed', ONE_MORE] };
}

/**
 * Builds the expression of a release's `work.lapsed`. A worker that was blocked for longer than its lease may still be the first
 * to write: with one worker no other has claimed the batch. Every other release shows that the batch has not ended its worker;
 * a suspected batch stays suspected, since not all of its recipients may have been tried.
 *
 * @param hasLapsed expression: the worker was blocked until the lease had ended
 */
export function buildReleasedCount(hasLapsed: Document): Document {
  const isStillSuspected = { $gte: ['$work.lapsed', SUSPECTED_AFTER] };
  const unlapsed = { $cond: [isStillSuspected, '$work.lapsed', '$$REMOVE'] };
  return { $cond: [hasLapsed, ONE_MORE, unlapsed] };
}
