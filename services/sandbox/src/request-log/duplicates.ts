/** Maximum keys of a generation; the last two generations are remembered. */
const GENERATION_SIZE = 1_000_000;
/** Maximum duplicates that are listed. */
const MAX_LISTED = 1_000;

/** A push that was accepted more than once for the same address. */
export interface Duplicate {
  push: string;
  to: string;
  times: number;
}

/**
 * Creates a detector of pushes that were accepted twice, among the last one to two million accepted ones. It stores
 * 53-bit hashes in two generations, about 40 MB when full.
 */
export function createDuplicateDetector() {
  let currentGeneration = new Set<number>();
  let previousGeneration = new Set<number>();
  const listed = new Map<string, Duplicate>();
  let duplicateCount = 0;

  function recordDuplicate(push: string, to: string): void {
    duplicateCount += 1;
    const key = `${push} ${to}`;
    const duplicate = listed.get(key);
    if (duplicate !== undefined) duplicate.times += 1;
    else if (listed.size < MAX_LISTED) listed.set(key, { push, to, times: 2 });
  }

  return {
    recordAccepted: (push: string, to: string): void => {
      const key = hash(push, to);
      if (currentGeneration.has(key) || previousGeneration.has(key)) {
        recordDuplicate(push, to);
        return;
      }
      if (currentGeneration.size === GENERATION_SIZE) {
        previousGeneration = currentGeneration;
        currentGeneration = new Set();
      }
      currentGeneration.add(key);
    },
    /** Counts the accepted pushes that repeat an earlier one. */
    count: (): number => duplicateCount,
    /** Lists the first thousand duplicates. */
    list: (): Duplicate[] => [...listed.values()],
    clear: (): void => {
      currentGeneration = new Set();
      previousGeneration = new Set();
      listed.clear();
      duplicateCount = 0;
    },
  };
}

/** Computes a 53-bit hash from two multiplicative hashes (the cyrb53 construction). */
function hash(push: string, to: string): number {
  let low = 0xdeadbeef;
  let high = 0x41c6ce57;
  for (const text of [push, to]) {
    for (let at = 0; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      low = Math.imul(low ^ code, 2_654_435_761);
      high = Math.imul(high ^ code, 1_597_334_677);
    }
  }
  low =
    Math.imul(low ^ (low >>> 16), 2_246_822_507) ^ Math.imul(high ^ (high >>> 13), 3_266_489_909);
  high =
    Math.imul(high ^ (high >>> 16), 2_246_822_507) ^ Math.imul(low ^ (low >>> 13), 3_266_489_909);
  return 4_294_967_296 * (high & 0x1fffff) + (low >>> 0);
}
