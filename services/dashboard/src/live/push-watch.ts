import type { Reports } from '@carillon/reports/reports';

const INTERVAL_MS = 1_000;
/** With more pushes than this, they are read every 5 s. */
const MAX_FREQUENT = 20;
const RARE_INTERVAL_MS = 5_000;
/** Pushes that one read is for; of more, each read is for the next ones. */
const MAX_PER_READ = 200;

/** One viewer of some pushes. */
interface Watcher {
  /** The last mark of each push that was reported to it; undefined before the first. */
  marks: Map<string, string | undefined>;
  onChange(push: string): void;
}

/**
 * Creates the watch of pushes that all viewers of a process share: the progress of all watched pushes is read together,
 * every second, or every 5 s if there are many, and only while there are viewers.
 */
export function createPushWatch(
  pushProgress: Pick<Reports['pushProgress'], 'readMarks'>,
  { intervalMs = INTERVAL_MS, rareIntervalMs = RARE_INTERVAL_MS } = {},
) {
  const watchers = new Set<Watcher>();
  let timer: NodeJS.Timeout | undefined;
  /** The last push of a read that was not for all. */
  let readUntil = '';

  function listWatched(): string[] {
    return [...new Set([...watchers].flatMap(({ marks }) => [...marks.keys()]))];
  }

  /** Returns the watched pushes that are read now. */
  function takeNext(): string[] {
    const watched = listWatched();
    if (watched.length <= MAX_PER_READ) return watched;
    const sorted = watched.sort();
    const start = sorted.findIndex((id) => id > readUntil);
    const next = sorted.slice(Math.max(0, start)).slice(0, MAX_PER_READ);
    readUntil = next.at(-1) ?? '';
    return next;
  }

  async function poll(): Promise<void> {
    if (watchers.size === 0) return;
    const read = new Set(takeNext());
    const current = await pushProgress.readMarks([...read]);
    for (const { marks, onChange } of watchers)
      for (const [push, known] of marks) {
        // A viewer that came during the read has its push in a later one.
        const mark = current.get(push);
        if (mark === known || !read.has(push)) continue;
        marks.set(push, mark);
        onChange(push);
      }
  }

  function schedule(delayMs: number): void {
    timer = setTimeout(() => {
      // While MongoDB is unavailable nothing is known to have changed.
      void poll()
        .catch(() => undefined)
        .then(() => {
          timer = undefined;
          if (watchers.size === 0) return;
          schedule(listWatched().length > MAX_FREQUENT ? rareIntervalMs : intervalMs);
        });
    }, delayMs).unref();
  }

  return {
    /**
     * Calls `onChange` when a push has changed, and once in the beginning: it may have changed since the viewer read it.
     * Returns a function that ends it.
     */
    watch(pushes: readonly string[], onChange: (push: string) => void): () => void {
      if (pushes.length === 0) return () => undefined;
      const watcher: Watcher = { marks: new Map(pushes.map((id) => [id, undefined])), onChange };
      watchers.add(watcher);
      if (timer === undefined) schedule(0);
      return () => void watchers.delete(watcher);
    },
  };
}
