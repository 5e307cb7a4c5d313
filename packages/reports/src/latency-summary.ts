/** Maximum latency that is counted exactly, in milliseconds. */
const EXACT_MS = 256;
/** Number of buckets for each larger power of two, so that a percentile is at most 1 % too high. */
const BUCKETS_PER_POWER = EXACT_MS / 2;
const EXACT_POWER = Math.log2(EXACT_MS);
/** Maximum latency that is counted as it is. A push lives a year at most, which is less than 2 ** 35 ms. */
const MAX_MS = 2 ** 35 - 1;
/** Number of buckets. */
const BUCKETS = EXACT_MS + (35 - EXACT_POWER) * BUCKETS_PER_POWER;

/** Milliseconds from acceptance, or the due time, to the receipts whose time is stored. */
export interface LatencySummary {
  count: number;
  min: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

/** Creates a summary of latencies in constant memory, about 30 KB, whatever their number. */
export function createLatencySummary() {
  const counts = new Float64Array(BUCKETS);
  let count = 0;
  let min = Number.POSITIVE_INFINITY;
  let max = 0;

  /** Returns the upper bound of the bucket that holds the latency of this rank. */
  function percentile(share: number): number {
    const rank = Math.ceil(count * share);
    let seen = 0;
    for (const [bucket, n] of counts.entries()) {
      seen += n;
      if (seen >= rank) return Math.min(max, upperBoundOf(bucket));
    }
    return max;
  }

  function add(ms: number): void {
    const latencyMs = Math.min(ms, MAX_MS);
    const bucket = bucketOf(latencyMs);
    counts[bucket] = (counts[bucket] ?? 0) + 1;
    count += 1;
    if (latencyMs < min) min = latencyMs;
    if (latencyMs > max) max = latencyMs;
  }

  return {
    /** Adds one latency of at least a millisecond. */
    add,
    /**
     * Adds latencies packed as 4 bytes each, little endian; 0 stands for an unknown one.
     *
     * @param isReceived checks by its position whether a recipient counts
     */
    addPacked(bytes: Uint8Array, isReceived: (position: number) => boolean): void {
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      for (let at = 0; at + 4 <= view.byteLength; at += 4) {
        const latencyMs = view.getUint32(at, true);
        if (latencyMs > 0 && isReceived(at / 4)) add(latencyMs);
      }
    },
    /** Returns the summary; undefined without a latency. */
    end(): LatencySummary | undefined {
      if (count === 0) return undefined;
      const [p50, p90, p99] = [percentile(0.5), percentile(0.9), percentile(0.99)];
      return { count, min, p50, p90, p99, max };
    },
  };
}

function bucketOf(latencyMs: number): number {
  if (latencyMs < EXACT_MS) return latencyMs;
  const power = Math.floor(Math.log2(latencyMs));
  const step = 2 ** power / BUCKETS_PER_POWER;
  const offset = Math.floor((latencyMs - 2 ** power) / step);
  return EXACT_MS + (power - EXACT_POWER) * BUCKETS_PER_POWER + offset;
}

function upperBoundOf(bucket: number): number {
  if (bucket < EXACT_MS) return bucket;
  const power = EXACT_POWER + Math.floor((bucket - EXACT_MS) / BUCKETS_PER_POWER);
  const offset = (bucket - EXACT_MS) % BUCKETS_PER_POWER;
  return 2 ** power + ((offset + 1) * 2 ** power) / BUCKETS_PER_POWER - 1;
}
