/** Number of pushes that are remembered without a limit of time. */
const ALWAYS_REMEMBERED = 32;
/** Maximum pushes that are remembered: for a connection with many, twenty seconds of them at a dozen a second. */
const MAX_REMEMBERED = 256;
/**
 * Time for which other pushes are remembered. A worker that has lost the report of a receipt writes its row within it,
 * after the results of its dispatch, a restart of a Redis server, or the lease of a claim.
 */
const REMEMBERED_MS = 60_000;

/**
 * The last pushes that a device has acknowledged on a connection. The report of a receipt to the worker can be lost
 * with Redis. Then the push comes again, from another dispatch or from an inbox row, and the gateway acknowledges it
 * without the device.
 *
 * Remembers the last 32; of the last minute up to 256.
 */
export class AcknowledgedPushes {
  readonly #pushes = new Set<string>();
  #addedSinceTrim = 0;
  #trimmedAt = performance.now();

  add(push: string): void {
    this.#pushes.add(push);
    this.#addedSinceTrim += 1;
    if (this.#pushes.size > MAX_REMEMBERED) dropOldest(this.#pushes, MAX_REMEMBERED);
  }

  has(push: string): boolean {
    return this.#pushes.has(push);
  }

  /** Frees the memory of older ones; called about once a second. @param now by the monotonic clock, milliseconds */
  trim(now: number): void {
    if (now - this.#trimmedAt < REMEMBERED_MS) return;
    dropOldest(this.#pushes, Math.max(ALWAYS_REMEMBERED, this.#addedSinceTrim));
    this.#addedSinceTrim = 0;
    this.#trimmedAt = now;
  }
}

/** Deletes the first entries of a set until at most so many are left. */
function dropOldest(entries: Set<string>, kept: number): void {
  for (const entry of entries) {
    if (entries.size <= kept) return;
    entries.delete(entry);
  }
}
