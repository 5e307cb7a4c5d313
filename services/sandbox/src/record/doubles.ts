const GENERATION = 1_000_000;
const LISTED = 1_000;

/** A push that one address was given more than once. */
export interface Doubled {
  push: string;
  to: string;
  times: number;
}

/** Finds what was accepted twice, over the last one to two million acceptances. */
export interface Doubles {
  accepted(push: string, to: string): void;
  /** How many acceptances repeated one before. */
  count(): number;
  /** The first thousand that were repeated. */
  list(): Doubled[];
  clear(): void;
}

/** Makes an empty memory of what was accepted: 53-bit hashes in two generations, some 40 MB when full. */
export function createDoubles(): Doubles {
  let young = new Set<number>();
  let old = new Set<number>();
  const listed = new Map<string, Doubled>();
  let repeats = 0;

  function note(push: string, to: string): void {
    repeats += 1;
    const key = `${push} ${to}`;
    const known = listed.get(key);
    if (known !== undefined) known.times += 1;
    else if (listed.size < LISTED) listed.set(key, { push, to, times: 2 });
  }

  return {
    accepted: (push, to) => {
      const key = hash(push, to);
      if (young.has(key) || old.has(key)) return note(push, to);
      if (young.size === GENERATION) {
        old = young;
        young = new Set();
      }
      young.add(key);
    },
    count: () => repeats,
    list: () => [...listed.values()],
    clear: () => {
      young = new Set();
      old = new Set();
      listed.clear();
      repeats = 0;
    },
  };
}

/** Two multiplicative hashes side by side, 53 bits together (the cyrb53 construction). */
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
