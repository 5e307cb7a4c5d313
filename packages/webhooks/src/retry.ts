import { computeFullJitterMs } from '@carillon/core/backoff';
import type { WebhookResponse } from './webhooks.ts';

const BASE_DELAY_MS = 1_000;
const MAX_DELAY_MS = 3_600_000;
const BACKOFF = { baseMs: BASE_DELAY_MS, maxMs: MAX_DELAY_MS };
/** Maximum Retry-After that is honoured. */
const MAX_RETRY_AFTER_MS = 86_400_000;
/** Time of failing requests after which a webhook is turned off. */
export const MAX_FAILING_MS = 5 * 86_400_000;
/** HTTP status of a receiver that wants no more requests. */
const GONE = 410;

/**
 * Computes the delay after a failure: Retry-After, else full jitter below a ceiling that doubles from a second to an
 * hour.
 *
 * @param failures failures in a row before this one
 * @param random from 0 to 1
 */
export function computeDelayMs(
  failures: number,
  retryAfterMs: number | undefined,
  random: () => number,
): number {
  if (retryAfterMs !== undefined) return Math.max(1, Math.min(retryAfterMs, MAX_RETRY_AFTER_MS));
  return Math.max(1, computeFullJitterMs(failures, BACKOFF, random));
}

/**
 * Returns the number of events of the next request: fewer after failures, because the receiver may be overloaded by
 * many.
 */
export function computeRequestSize(failures: number, maxEvents: number): number {
  return Math.max(1, maxEvents >> Math.min(failures, 30));
}

/** Checks whether a receiver has accepted a request: any 2xx. */
export function isAccepted(response: WebhookResponse): boolean {
  return 'status' in response && response.status >= 200 && response.status < 300;
}

/** Checks whether a receiver wants no more requests. */
export function isGone(response: WebhookResponse): boolean {
  return 'status' in response && response.status === GONE;
}
