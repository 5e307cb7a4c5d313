import type { Entry } from './journal.ts';

const MOST_ENTRIES = 100_000;
const MOST_PAYLOAD_CHARACTERS = 64_000_000;

/** The newest entries, bounded in number and size. */
export interface Ring {
  add(entry: Entry): void;
  /** Those with a number above `n`, in order. */
  after(n: number): Generator<Entry>;
  clear(): void;
}

/** Makes an empty ring; the numbers of its entries go up by one. */
export function createRing(): Ring {
  const slots: (Entry | undefined)[] = [];
  let oldest = 0;
  let newest = -1;
  let characters = 0;

  function drop(): void {
    const slot = oldest % MOST_ENTRIES;
    characters -= slots[slot]?.payload?.length ?? 0;
    slots[slot] = undefined;
    oldest += 1;
  }

  return {
    add: (entry) => {
      if (newest < oldest) oldest = entry.n;
      newest = entry.n;
      if (newest - oldest === MOST_ENTRIES) drop();
      slots[newest % MOST_ENTRIES] = entry;
      characters += entry.payload?.length ?? 0;
      while (characters > MOST_PAYLOAD_CHARACTERS) drop();
    },
    after: function* (n) {
      for (let at = Math.max(oldest, n + 1); at <= newest; at += 1) {
        const entry = slots[at % MOST_ENTRIES];
        if (entry !== undefined) yield entry;
      }
    },
    clear: () => {
      slots.length = 0;
      oldest = newest + 1;
      characters = 0;
    },
  };
}
