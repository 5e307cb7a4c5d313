import { isFallbackBatchId } from '@carillon/core/ids';
import { failureMask } from '@carillon/core/outcomes';
import type { Document } from 'mongodb';

/**
 * Returns the reasons with which recipients of a batch have failed, as a mask; 0 if none has. The recipients of a
 * fallback have their outcome in another batch.
 */
export function findFailures(id: string, outcomes: Uint8Array): number {
  return isFallbackBatchId(id) ? 0 : failureMask(outcomes);
}

/**
 * Builds the fields that list batches among the failures, for the statement that saves their outcomes. The indexes of
 * failures contain only batches with these fields, so batches without a failure cost nothing.
 *
 * @param mask an expression; a batch for which it is 0 stays as it is
 */
export function buildFailureMark(mask: Document): Document {
  const whenFailed = (value: unknown, field: string) => ({
    $cond: [{ $gt: [mask, 0] }, value, field],
  });
  return {
    // The first time stays, so that a list by time is stable while further recipients fail.
    'work.failedAt': whenFailed({ $ifNull: ['$work.failedAt', '$$NOW'] }, '$work.failedAt'),
    'work.failures': whenFailed(mask, '$work.failures'),
  };
}
