/**
 * Number of unsaved outcomes after which a batch is saved. A killed worker repeats fewer than these of each batch, and
 * the requests in flight. So many are saved also before the settlement: the windows of their requests serve the next
 * batch meanwhile.
 */
const SAVE_AFTER_OUTCOMES = 25;
const SAVE_INTERVAL_MS = 1_000;

/** Saving of the outcomes of a batch in progress, so that a worker that takes over repeats few. */
export interface Progress {
  /** Resolves when few outcomes are unsaved; a finished request waits for it before the next takes its place. */
  saveIfDue(): Promise<void>;
  /** Returns true if an outcome is not saved. */
  hasUnsaved(): boolean;
  /** Resolves when nothing is saved any more: a save in flight has older outcomes, and must not be the last write. */
  stop(): Promise<void>;
}

/**
 * Starts saving, by the number of outcomes and by the clock.
 *
 * @param save saves all outcomes so far; may reject
 * @param pending recipients without an outcome; without any the batch is about to be settled, which saves the last outcomes
 */
export function trackProgress(save: () => Promise<void>, pending: ReadonlySet<number>): Progress {
  let saved = { pending: pending.size, savedAt: performance.now() };
  let saving: Promise<void> | undefined;
  let isStopped = false;
  const timer = setInterval(() => void saveIfDue().catch(() => undefined), SAVE_INTERVAL_MS);

  function isDue(): boolean {
    const unsaved = saved.pending - pending.size;
    if (isStopped || unsaved === 0) return false;
    if (unsaved >= SAVE_AFTER_OUTCOMES) return true;
    return pending.size > 0 && performance.now() - saved.savedAt >= SAVE_INTERVAL_MS;
  }

  async function saveNow(): Promise<void> {
    const pendingBefore = pending.size;
    try {
      await save();
      saved = { pending: pendingBefore, savedAt: performance.now() };
    } finally {
      saving = undefined;
    }
  }

  async function saveIfDue(): Promise<void> {
    while (isDue()) {
      saving ??= saveNow();
      // More requests may have finished meanwhile.
      await saving;
    }
  }

  return {
    saveIfDue,
    hasUnsaved: () => pending.size < saved.pending,
    async stop() {
      isStopped = true;
      clearInterval(timer);
      await saving?.catch(() => undefined);
    },
  };
}
