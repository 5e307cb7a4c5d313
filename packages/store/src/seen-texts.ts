import { createHash } from 'node:crypto';

/** Number of sets: one holds 16.7 million values at most. */
const SETS = 32;
const LOW_BITS = 2 ** 32;
const HIGH_BITS = 2 ** 21;

/** Remembers texts of any length by 53 bits of their SHA-256: among ten million, two are confused once in 180 runs. */
export function createSeenTexts() {
  const sets = Array.from({ length: SETS }, () => new Set<number>());

  function find(text: string): { set: Set<number>; digest: number } {
    const bytes = createHash('sha256').update(text).digest();
    const low = bytes.readUInt32LE(0);
    const digest = (bytes.readUInt32LE(4) % HIGH_BITS) * LOW_BITS + low;
    return { set: sets[low % SETS] as Set<number>, digest };
  }

  return {
    add(text: string): void {
      const { set, digest } = find(text);
      set.add(digest);
    },
    has(text: string | undefined): boolean {
      if (text === undefined) return false;
      const { set, digest } = find(text);
      return set.has(digest);
    },
  };
}
