/** Maximum entries of the log. */
const MAX_ENTRIES = 100_000;
/** Maximum length of all payloads together. */
const MAX_PAYLOAD_CHARACTERS = 64_000_000;

interface NumberedEntry {
  n: number;
  payload: string | null;
}

/** Creates a buffer of the newest entries, bounded in number and size. Their numbers must be consecutive. */
export function createRingBuffer<Entry extends NumberedEntry>() {
  const slots: (Entry | undefined)[] = [];
  let oldest = 0;
  let newest = -1;
  let characters = 0;

  function evictOldest(): void {
    const slot = oldest % MAX_ENTRIES;
    characters -= slots[slot]?.payload?.length ?? 0;
    slots[slot] = undefined;
    oldest += 1;
  }

  return {
    add: (entry: Entry) => {
      if (newest < oldest) oldest = entry.n;
      newest = entry.n;
      if (newest - oldest === MAX_ENTRIES) evictOldest();
      slots[newest % MAX_ENTRIES] = entry;
      characters += entry.payload?.length ?? 0;
      while (characters > MAX_PAYLOAD_CHARACTERS) evictOldest();
    },
    /** Yields the entries with a number above `n`, in order. */
    after: function* (n: number) {
      for (let at = Math.max(oldest, n + 1); at <= newest; at += 1) {
        const entry = slots[at % MAX_ENTRIES];
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
