import { ApiError } from '@carillon/core/api-error';
import { addressGroup } from '@carillon/core/client-address';
import { LIMITS } from '@carillon/core/limits';
import type { WindowCounts } from '@carillon/presence/window-counts';
import type { AccountDocument } from '@carillon/store/documents';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** Where an account stands in its present minute. */
export interface Allowance {
  limit: number;
  remaining: number;
  /** Until the minute ends. */
  resetSeconds: number;
}

/** Who may ask how often, counted over all processes. */
export interface RateLimits {
  /** Counts a request of an account (specification, section 8); undefined: it is unlimited. */
  countRequest(account: AccountDocument): Promise<Allowance | undefined>;
  /** Counts a wrong API key of a client address; true: there were too many in the hour (specification 5.4). */
  countWrongKey(address: string): Promise<boolean>;
  /** Counts a new device. @throws ApiError RATE_LIMIT_EXCEEDED */
  countRegistration(address: string, app: RegisteringApp): Promise<void>;
}

/** What an app says of new devices. */
export interface RegisteringApp {
  _id: string;
  /** An hour; undefined: the usual limit, null: none. */
  registrationsPerHour?: number | null;
}

/**
 * Makes the limits.
 *
 * @param hasAddressLimits false: nothing is limited by client address, for load from one machine
 */
export function createRateLimits(counts: WindowCounts, hasAddressLimits: boolean): RateLimits {
  async function countHourly(key: string, limit: number): Promise<void> {
    const { n, resetsInMs } = await counts.add(key, HOUR_MS);
    if (n <= limit) return;
    const seconds = Math.ceil(resetsInMs / 1_000);
    throw new ApiError('RATE_LIMIT_EXCEEDED', 'Too many new devices within an hour.', seconds);
  }

  return {
    async countRequest({ _id, plan, limit = LIMITS.requestsPerMinute[plan] }) {
      if (limit === null) return undefined;
      const { n, resetsInMs } = await counts.add(`account:${_id}`, MINUTE_MS);
      // Below zero says that this request is too much already.
      return { limit, remaining: limit - n, resetSeconds: Math.ceil(resetsInMs / 1_000) };
    },
    async countWrongKey(address) {
      if (!hasAddressLimits) return false;
      const { n } = await counts.add(`wrong-key:${addressGroup(address)}`, HOUR_MS);
      return n > LIMITS.wrongKeysPerHour;
    },
    async countRegistration(address, { _id, registrationsPerHour }) {
      if (hasAddressLimits) {
        const key = `register:${addressGroup(address)}`;
        await countHourly(key, LIMITS.registrationsPerAddressHour);
      }
      const limit = registrationsPerHour ?? LIMITS.registrationsPerAppHour;
      if (registrationsPerHour !== null) await countHourly(`register-app:${_id}`, limit);
    },
  };
}
