import { ApiError } from '@carillon/core/api-error';

/** Interval at which the waiting lookups run as one query. */
const LOOKUP_INTERVAL_MS = 250;
/** Maximum waiting lookups of a client address. */
const MAX_WAITING_PER_ADDRESS = 2_000;
/** Maximum waiting lookups of all addresses. */
const MAX_WAITING = 4_000;

interface WaitingLookup<R> {
  key: string;
  address: string;
  resolve(result: R | undefined): void;
  reject(error: unknown): void;
}

/**
 * Creates a lookup that runs a few times a second, for all keys that wait. Many keys from one address cost little, and
 * a valid key among them waits 250 ms. If more keys arrive than one query takes, a random choice decides which are
 * kept, so that a fast client does not displace a slow one.
 *
 * @param lookupAll finds the owners of many keys at once
 */
export function createThrottledLookup<R>(
  lookupAll: (keys: string[]) => Promise<ReadonlyMap<string, R>>,
) {
  let waiting: WaitingLookup<R>[] = [];
  let waitingByAddress = new Map<string, WaitingLookup<R>[]>();

  async function flush(): Promise<void> {
    const batch = waiting;
    waiting = [];
    waitingByAddress = new Map();
    try {
      const results = await lookupAll([...new Set(batch.map(({ key }) => key))]);
      for (const { key, resolve } of batch) resolve(results.get(key));
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }

  /** Replaces a random entry of a full queue, or discards the new one. The discarded lookup fails. */
  function replaceRandom(fullQueue: WaitingLookup<R>[], entry: WaitingLookup<R>): void {
    const evicted = fullQueue[Math.floor(Math.random() * (fullQueue.length + 1))] ?? entry;
    evicted.reject(new ApiError('SERVICE_UNAVAILABLE'));
    if (evicted === entry) return;
    const { key, address, resolve, reject } = entry;
    const evictedQueue = waitingByAddress.get(evicted.address);
    evictedQueue?.splice(evictedQueue.indexOf(evicted), 1);
    Object.assign(evicted, { key, address, resolve, reject });
    getAddressQueue(address).push(evicted);
  }

  function getAddressQueue(address: string): WaitingLookup<R>[] {
    const queue = waitingByAddress.get(address) ?? [];
    waitingByAddress.set(address, queue);
    return queue;
  }

  /**
   * Looks up one key with the next query.
   *
   * @throws ApiError SERVICE_UNAVAILABLE if too many lookups wait
   */
  return (key: string, address: string): Promise<R | undefined> =>
    new Promise((resolve, reject) => {
      const entry = { key, address, resolve, reject };
      const addressQueue = getAddressQueue(address);
      if (addressQueue.length >= MAX_WAITING_PER_ADDRESS)
        return void replaceRandom(addressQueue, entry);
      if (waiting.length >= MAX_WAITING) return void replaceRandom(waiting, entry);
      addressQueue.push(entry);
      waiting.push(entry);
      if (waiting.length === 1) setTimeout(() => void flush(), LOOKUP_INTERVAL_MS).unref();
    });
}
