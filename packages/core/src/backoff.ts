/** Maximum doublings, so that the ceiling stays a finite number. With it a second becomes twelve days. */
const MAX_DOUBLINGS = 20;

/** Bounds of a backoff, in milliseconds: the ceiling of the first delay, and that of all later ones. */
export interface BackoffBounds {
  baseMs: number;
  maxMs: number;
}

/**
 * Computes a delay with full jitter: random, in whole milliseconds from 0 to a ceiling that doubles with each failure.
 * Callers that failed together are spread over the whole time.
 *
 * @param failures failures in a row before this one
 * @param random from 0 to 1
 */
export function computeFullJitterMs(
  failures: number,
  { baseMs, maxMs }: BackoffBounds,
  random: () => number,
): number {
  const ceilingMs = Math.min(maxMs, baseMs * 2 ** Math.min(failures, MAX_DOUBLINGS));
  return Math.round(random() * ceilingMs);
}
