import { LIMITS } from '@carillon/core/limits';
import type { RateCounter } from './rate-counter.ts';

const MINUTE_MS = 60_000;

/** Usage of an account in the current minute. */
export interface RateLimitStatus {
  limit: number;
  /** Negative if the request exceeds the limit. */
  remaining: number;
  /** Seconds until the minute ends. */
  resetSeconds: number;
}

/** The fields of an account that determine its limit. */
interface LimitedAccount {
  _id: string;
  plan: keyof typeof LIMITS.requestsPerMinute;
  /** Requests per minute; null means unlimited, absent means the limit of the plan. */
  limit?: number | null;
}

/**
 * Counts a request of an account over all processes (specification, section 8); undefined if the account has no limit.
 * The API, the console and re-drives count in the same window.
 */
export function countRequest(
  rateCounter: RateCounter,
  { _id, plan, limit = LIMITS.requestsPerMinute[plan] }: LimitedAccount,
): Promise<RateLimitStatus> | undefined {
  return limit === null ? undefined : countWithLimit(rateCounter, _id, limit);
}

async function countWithLimit(
  rateCounter: RateCounter,
  account: string,
  limit: number,
): Promise<RateLimitStatus> {
  const { count, resetsInMs } = await rateCounter.increment(`account:${account}`, MINUTE_MS);
  return { limit, remaining: limit - count, resetSeconds: Math.ceil(resetsInMs / 1_000) };
}
