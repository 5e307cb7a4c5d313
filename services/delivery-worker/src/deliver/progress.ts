/** A killed worker repeats at most what was under way, and so many ends of each large unit of work. */
const SAVE_AFTER_ENDS = 25;
const SAVE_EVERY_MS = 1_000;

/** What a unit of work has come to while it goes on, kept so that whoever takes it over repeats few. */
export interface Progress {
  /** One more recipient has an end. */
  ended(): void;
  /** Whoever is to send next waits for this, so that no more than a few ends are unsaved. */
  saveIfDue(): Promise<void>;
  /** Nothing is saved any more once this resolves: a save that is under way knows less, and must not come last. */
  stop(): Promise<void>;
}

/**
 * Begins to keep progress, by the number of ends and by the clock.
 *
 * @param save keeps all ends so far; may reject
 * @param isOpen false: the work is about to be settled, which keeps all
 */
export function keepProgress(save: () => Promise<void>, isOpen: () => boolean): Progress {
  let ends = 0;
  let saved = { ends: 0, at: performance.now() };
  let saving: Promise<void> | undefined;
  let isStopped = false;
  const timer = setInterval(() => void saveIfDue().catch(() => undefined), SAVE_EVERY_MS);

  function isDue(): boolean {
    const unsaved = ends - saved.ends;
    if (isStopped || unsaved === 0 || !isOpen()) return false;
    return unsaved >= SAVE_AFTER_ENDS || performance.now() - saved.at >= SAVE_EVERY_MS;
  }

  async function saveNow(): Promise<void> {
    const upTo = ends;
    try {
      await save();
      saved = { ends: upTo, at: performance.now() };
    } finally {
      saving = undefined;
    }
  }

  async function saveIfDue(): Promise<void> {
    while (isDue()) {
      saving ??= saveNow();
      // What has ended meanwhile may be too much again.
      await saving;
    }
  }

  return {
    ended() {
      ends += 1;
    },
    saveIfDue,
    async stop() {
      isStopped = true;
      clearInterval(timer);
      await saving?.catch(() => undefined);
    },
  };
}
