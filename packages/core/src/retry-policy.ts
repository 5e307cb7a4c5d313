const BASE_BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 600_000;
/** Maximum doublings: by then a ceiling has long reached its maximum, and it stays a finite number. */
const MAX_DOUBLINGS = 20;
/** Maximum Retry-After that is honoured: the provider is tried once a day. */
const MAX_RETRY_AFTER_MS = 86_400_000;
/** Spread of attempts after a Retry-After, as a share of it, so that they don't all come at once. */
const JITTER = 0.1;

/**
 * Computes the delay of the next attempt, for all providers (guarantee G16): a backoff whose ceiling doubles from a
 * second to ten minutes, and longer if the provider's Retry-After is. The delay is at least half of the ceiling, so the
 * gaps grow whatever the provider says. The caller checks whether the push may still be sent.
 *
 * @param retries deferrals so far
 * @param retryAfterMs the provider's Retry-After
 * @param random from 0 to 1
 */
export function computeRetryDelayMs(
  retries: number,
  retryAfterMs: number | undefined,
  random: () => number,
): number {
  const ceilingMs = Math.min(
    MAX_BACKOFF_MS,
    BASE_BACKOFF_MS * 2 ** Math.min(retries, MAX_DOUBLINGS),
  );
  const backoffMs = (ceilingMs * (1 + random())) / 2;
  const atLeastMs = Math.min(retryAfterMs ?? 0, MAX_RETRY_AFTER_MS) * (1 + random() * JITTER);
  return Math.round(Math.max(backoffMs, atLeastMs));
}
