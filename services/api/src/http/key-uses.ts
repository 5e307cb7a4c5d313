import { startInterval } from '@carillon/core/intervals';
import type { Producers } from '@carillon/queue/producers';
import { USE_PRECISION_MS } from '@carillon/store/keys';
import type { Store } from '@carillon/store/store';
import { LRUCache } from 'lru-cache';

const FLUSH_INTERVAL_MS = 1_000;
/** Interval at which the cache reads the clock, which costs it a timer. */
const CLOCK_PRECISION_MS = 1_000;
/**
 * Maximum keys that are remembered: as many as valid keys are cached. The key of an evicted entry is reported again,
 * which the store ignores.
 */
const MAX_KEYS = 10_000;

/** Records uses of API keys. */
export type KeyUseRecorder = ReturnType<typeof createKeyUseRecorder>;

/**
 * Records in memory which keys are used, and publishes them once a second in one job: each key at most once a minute. A
 * killed process loses at most the uses of one second; the next use is recorded.
 *
 * @param clock MongoDB's time
 */
export function createKeyUseRecorder(
  producers: Pick<Producers, 'publishKeyUses'>,
  clock: Pick<Store['clock'], 'now'>,
) {
  const recorded = new LRUCache<string, true>({
    max: MAX_KEYS,
    ttl: USE_PRECISION_MS,
    ttlResolution: CLOCK_PRECISION_MS,
  });
  let pending = new Map<string, number>();

  async function flush(): Promise<void> {
    if (pending.size === 0) return;
    const uses = [...pending];
    pending = new Map();
    await producers.publishKeyUses(uses);
  }

  const stopFlushing = startInterval(() => void flush(), FLUSH_INTERVAL_MS);
  return {
    /** Records a use; costs one lookup in memory. */
    record(keyId: string): void {
      if (recorded.has(keyId) || pending.size >= MAX_KEYS) return;
      recorded.set(keyId, true);
      pending.set(keyId, Math.round(clock.now()));
    },
    async stop(): Promise<void> {
      stopFlushing();
      await flush();
    },
  };
}
