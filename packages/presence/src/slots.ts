import { randomUUID } from 'node:crypto';
import type { PresenceServer } from './presence-server.ts';
import { readScript } from './read-script.ts';

/** Lease of a slot: the slots of a process that died are free after it. */
const LEASE_MS = 10_000;
const RENEW_INTERVAL_MS = 3_000;

const ACQUIRE_SLOT = readScript('acquire-slot');

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
      return (await redis.eval(ACQUIRE_SLOT, 1, keys.slots(key), max, LEASE_MS, holder)) === 1;
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
        void redis.zrem(keys.slots(key), holder).catch(onError);
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
