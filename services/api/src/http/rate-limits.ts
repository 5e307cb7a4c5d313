import { ApiError } from '@carillon/core/api-error';
import { toAddressGroup } from '@carillon/core/client-address';
import { LIMITS } from '@carillon/core/limits';
import type { RateCounter } from '@carillon/presence/rate-counter';
import { countRequest } from '@carillon/presence/request-limit';
import type { AccountDocument, AppDocument } from '@carillon/store/documents';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** Limits on requests, counted over all processes. */
export type RateLimits = ReturnType<typeof createRateLimits>;

/**
 * Creates the rate limits of a process.
 *
 * @param hasAddressLimits false disables all limits per client address, for load tests from one machine
 * @param onAddressLimit is called with each client address that exceeds a limit
 */
export function createRateLimits(
  rateCounter: RateCounter,
  hasAddressLimits: boolean,
  onAddressLimit: (address: string) => void = () => undefined,
) {
  async function countOrThrow(
    key: string,
    {
      limit,
      windowMs,
      text,
      address,
    }: { limit: number; windowMs: number; text: string; address?: string | undefined },
  ): Promise<void> {
    const { count, resetsInMs } = await rateCounter.increment(key, windowMs);
    if (count <= limit) return;
    if (address !== undefined) onAddressLimit(address);
    throw new ApiError('RATE_LIMIT_EXCEEDED', text, Math.ceil(resetsInMs / 1_000));
  }

  function countNewDeviceOrThrow(key: string, limit: number, address?: string): Promise<void> {
    const text = 'Too many new devices within an hour.';
    return countOrThrow(key, { limit, windowMs: HOUR_MS, text, address });
  }

  function countTopicChangeOrThrow(key: string, limit: number, address?: string): Promise<void> {
    const text = 'Too many changes of topics within a minute.';
    return countOrThrow(key, { limit, windowMs: MINUTE_MS, text, address });
  }

  return {
    /** Counts a request of an account (specification, section 8); undefined if the account has no limit. */
    countRequest: (account: Pick<AccountDocument, '_id' | 'plan' | 'limit'>) =>
      countRequest(rateCounter, account),
    /** Counts an invalid API key of a client address; true if the hourly limit is exceeded (specification 5.4). */
    async countWrongKey(address: string): Promise<boolean> {
      if (!hasAddressLimits) return false;
      const { count } = await rateCounter.increment(
        `wrong-key:${toAddressGroup(address)}`,
        HOUR_MS,
      );
      if (count <= LIMITS.wrongKeysPerHour) return false;
      onAddressLimit(address);
      return true;
    },
    /** Checks the same limit without counting, as far as this process knows. */
    hasTooManyWrongKeys: (address: string): boolean =>
      hasAddressLimits &&
      rateCounter.currentCount(`wrong-key:${toAddressGroup(address)}`) > LIMITS.wrongKeysPerHour,
    /** Counts a topic change of an authenticated device. @throws ApiError RATE_LIMIT_EXCEEDED */
    async countTopicChange(token: string, address: string): Promise<void> {
      // The device's own limit comes first: its excess must not count against others behind the same address.
      await countTopicChangeOrThrow(`topics:${token}`, LIMITS.topicChangesPerDeviceMinute);
      if (!hasAddressLimits) return;
      const key = `topics-from:${toAddressGroup(address)}`;
      await countTopicChangeOrThrow(key, LIMITS.topicChangesPerAddressMinute, address);
    },
    /**
     * Counts a registration. The app's `registrationsPerHour` replaces the default limit; null means no limit.
     *
     * @throws ApiError RATE_LIMIT_EXCEEDED
     */
    async countRegistration(
      address: string,
      { _id, registrationsPerHour }: Pick<AppDocument, '_id' | 'registrationsPerHour'>,
    ): Promise<void> {
      if (hasAddressLimits) {
        const key = `register:${toAddressGroup(address)}`;
        await countNewDeviceOrThrow(key, LIMITS.registrationsPerAddressHour, address);
      }
      const limit = registrationsPerHour ?? LIMITS.registrationsPerAppHour;
      if (registrationsPerHour !== null) await countNewDeviceOrThrow(`register-app:${_id}`, limit);
    },
  };
}
