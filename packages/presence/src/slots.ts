import { randomUUID } from 'node:crypto';
import type { PresenceServer } from './presence-server.ts';

/** Time after which the slots of a process that died are free. */
const LEASE_MS = 10_000;
const RENEW_INTERVAL_MS = 3_000;

/** KEYS: a sorted set of holders. ARGV: maximum, lease in milliseconds, holder. Returns 1 if the holder has a slot. */
const ACQUIRE_SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local isHeld = redis.call('ZSCORE', KEYS[1], ARGV[3])
if not isHeld and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

const RELEASE_SCRIPT = `return redis.call('ZREM', KEYS[1], ARGV[1])`;

/** A slot that is held until it is released. */
export interface Slot {
  /** Frees the slot. Idempotent. */
  release(): void;
}

/**
 * Creates slots: at most `max` holders of a key at once, counted over all processes by leases in Redis. While Redis is
 * unavailable, each process counts alone.
 */
export function createSlots(
  { redis, keys }: Pick<PresenceServer, 'redis' | 'keys'>,
  max: number,
  onError: (error: Error) => void,
) {
  const heldHere = new Map<string, number>();
  const change = (key: string, by: number): void => {
    const held = (heldHere.get(key) ?? 0) + by;
    if (held > 0) heldHere.set(key, held);
    else heldHere.delete(key);
  };

  async function tryAcquire(key: string, holder: string): Promise<boolean> {
    try {
      return (await redis.eval(ACQUIRE_SCRIPT, 1, keys.slots(key), max, LEASE_MS, holder)) === 1;
    } catch (error) {
      onError(error as Error);
      return true;
    }
  }

  function hold(key: string, holder: string): Slot {
    // After a loss of Redis a renewal is a new acquisition; it never ends what has begun.
    const timer = setInterval(() => void tryAcquire(key, holder), RENEW_INTERVAL_MS);
    timer.unref();
    let isReleased = false;
    return {
      release() {
        if (isReleased) return;
        isReleased = true;
        clearInterval(timer);
        change(key, -1);
        void redis.eval(RELEASE_SCRIPT, 1, keys.slots(key), holder).catch(onError);
      },
    };
  }

  return {
    /** Acquires a slot of a key; undefined if all are taken. */
    async acquire(key: string): Promise<Slot | undefined> {
      if ((heldHere.get(key) ?? 0) >= max) return undefined;
      change(key, 1);
      const holder = randomUUID();
      if (await tryAcquire(key, holder)) return hold(key, holder);
      change(key, -1);
      return undefined;
    },
  };
}
