import { toAddressGroup } from '@carillon/core/client-address';
import { LRUCache } from 'lru-cache';

/** New connections of one address a minute; further ones start after the connections of all other addresses. */
const CONNECTIONS_PER_MINUTE = 3_000;
/** Maximum connects of one device a minute: a device that is rejected elsewhere reconnects about once a second. */
const CONNECTS_PER_MINUTE = 120;
/** Maximum takeovers of a device's own open connection a minute; two clients that share a token cause nothing else. */
const TAKEOVERS_PER_MINUTE = 60;
/** Maximum pending connections of one address: the NAT of a mobile carrier stands for thousands of phones. */
const MAX_PENDING_PER_ADDRESS = 500;

/** Wrong credentials of one address that are rejected at once; each further one is rejected later than the last. */
const FREE_AUTH_FAILURES = 10;
/** Additional delay of each further rejection. */
const DELAY_STEP_MS = 100;
/** Maximum delay of a rejection. Clients wait ten seconds or more for a CONNACK. */
const MAX_DELAY_MS = 5_000;
const MAX_AUTH_FAILURES = FREE_AUTH_FAILURES + MAX_DELAY_MS / DELAY_STEP_MS;
const AUTH_FAILURE_DECAY_PER_SECOND = 0.2;

/**
 * Maximum burst of one address's lookups for credentials that none of our keys signed (of imported devices), successful
 * ones not counted. Even with a frozen MongoDB it leaves capacity for devices that need no lookup.
 */
const LOOKUP_BURST = 400;
/** Rate of these lookups. */
const LOOKUPS_PER_SECOND = 10;

/** Maximum addresses or devices that a limit remembers; the least recently counted is forgotten first. */
const MAX_TRACKED_KEYS = 50_000;

/**
 * Slows down addresses that flood or guess, without a ban: valid devices may share the address. Implementations:
 * `createAddressLimits` and `NO_ADDRESS_LIMITS`.
 */
export type AddressLimits = ReturnType<typeof createAddressLimits>;

/** @param now monotonic milliseconds */
export function createAddressLimits(now: () => number = () => performance.now()) {
  // A count of twice the limit decays within a minute, so no higher count is kept.
  const connectionRates = createLeakyBuckets(
    now,
    CONNECTIONS_PER_MINUTE / 60,
    2 * CONNECTIONS_PER_MINUTE,
  );
  const authFailures = createLeakyBuckets(now, AUTH_FAILURE_DECAY_PER_SECOND, MAX_AUTH_FAILURES);
  const lookups = createLeakyBuckets(now, LOOKUPS_PER_SECOND, LOOKUP_BURST);
  const connects = createCounts();
  const takeovers = createCounts();

  const resetTimer = setInterval(() => {
    connects.clear();
    takeovers.clear();
  }, 60_000);

  return {
    /** Most pending connections of one address. */
    pendingPerAddress: MAX_PENDING_PER_ADDRESS,
    /** Counts a new connection; returns whether the address is above its rate. */
    exceedsConnectionRate: (address: string): boolean =>
      connectionRates.add(toAddressGroup(address)) > CONNECTIONS_PER_MINUTE,
    /** Counts wrong credentials; returns the milliseconds after which they are rejected. */
    recordAuthFailure(address: string): number {
      const failureCount = authFailures.add(toAddressGroup(address));
      return Math.max(0, (failureCount - FREE_AUTH_FAILURES) * DELAY_STEP_MS);
    },
    /**
     * Counts a lookup for credentials that none of our keys signed.
     *
     * @returns false if the address had too many
     */
    tryAcquireLookup(address: string): boolean {
      const group = toAddressGroup(address);
      if (lookups.read(group) + 1 > LOOKUP_BURST) return false;
      lookups.add(group);
      return true;
    },
    /** Cancels the count of a lookup that confirmed the credentials, or failed. */
    refundLookup: (address: string): void => void lookups.add(toAddressGroup(address), -1),
    /**
     * Counts a connect of a device.
     *
     * @returns false if it connects too often
     */
    allowConnect(token: string, isTakeover: boolean): boolean {
      const isTooOften = isTakeover && takeovers.increment(token) > TAKEOVERS_PER_MINUTE;
      return connects.increment(token) <= CONNECTS_PER_MINUTE && !isTooOften;
    },
    stop: (): void => clearInterval(resetTimer),
  };
}

function createCounts() {
  const counts = new LRUCache<string, number>({ max: MAX_TRACKED_KEYS });
  return {
    clear: () => counts.clear(),
    increment(key: string): number {
      const count = (counts.get(key) ?? 0) + 1;
      counts.set(key, count);
      return count;
    },
  };
}

/** Creates counts by key that decrease over time and never exceed a capacity. */
function createLeakyBuckets(now: () => number, leakPerSecond: number, capacity: number) {
  const buckets = new LRUCache<string, { level: number; updatedAt: number }>({
    max: MAX_TRACKED_KEYS,
  });

  function read(key: string): number {
    const { level, updatedAt } = buckets.get(key) ?? { level: 0, updatedAt: 0 };
    return Math.max(0, level - ((now() - updatedAt) / 1_000) * leakPerSecond);
  }

  /** Adds to a count and returns the new count. */
  function add(key: string, amount = 1): number {
    const level = Math.min(Math.max(0, read(key) + amount), capacity);
    if (level > 0) buckets.set(key, { level, updatedAt: now() });
    else buckets.delete(key);
    return level;
  }

  return { read, add };
}

/** Limits that limit nothing, for load from one machine. */
export const NO_ADDRESS_LIMITS: AddressLimits = {
  pendingPerAddress: Number.POSITIVE_INFINITY,
  exceedsConnectionRate: () => false,
  recordAuthFailure: () => 0,
  tryAcquireLookup: () => true,
  refundLookup: () => undefined,
  allowConnect: () => true,
  stop: () => undefined,
};
