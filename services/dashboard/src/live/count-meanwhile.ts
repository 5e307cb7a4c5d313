import { resultWithin } from '@carillon/core/with-timeout';

/** Minimum interval of two counts of this process. */
const INTERVAL_MS = 15_000;
/** Maximum wait for a count, which goes on for the next read. */
const TIMEOUT_MS = 2_000;

/**
 * Creates the function that counts what a scheduler has not counted yet, which does so some seconds after the first
 * viewer came. All viewers share a count. It returns undefined while nothing is known.
 */
export function countMeanwhile<T>(count: () => Promise<T>): () => Promise<T | undefined> {
  let counting: Promise<T | undefined> = Promise.resolve(undefined);
  let startedAt = Number.NEGATIVE_INFINITY;
  return () => {
    if (performance.now() - startedAt > INTERVAL_MS) {
      startedAt = performance.now();
      counting = count().catch(() => undefined);
    }
    return resultWithin(counting, TIMEOUT_MS, undefined);
  };
}
