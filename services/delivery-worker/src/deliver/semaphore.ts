/**
 * A number of permits; callers wait in order, those of several apps in turns. Own code, not p-limit: a permit is held across
 * several functions.
 */
export interface Semaphore {
  /** Resolves with a function that releases the permit; a second call does nothing. */
  acquire(app?: string): Promise<() => void>;
}

/** A semaphore whose permits can be limited for a time. */
export interface AdjustableSemaphore extends Semaphore {
  /** Leaves one permit, besides those that are held: they stay valid, and are not given again. */
  shrinkToOne(): void;
  /** Gives back one of the permits that were taken away. */
  growByOne(): void;
}

/** Creates a semaphore. */
export function createSemaphore(permits: number): AdjustableSemaphore {
  let limit = permits;
  let held = 0;
  /** Permits that were given before the last limitation are of an earlier generation. */
  let generation = 0;
  // A Set keeps the order and removes its first entry without moving the others.
  const waiting = new Map<string, Set<(generation: number) => void>>();

  function admit(): void {
    // An app that is set again comes once more at the end of the loop.
    for (const [app, callers] of waiting) {
      if (held >= limit) return;
      waiting.delete(app);
      const [resolve] = callers;
      if (resolve === undefined) continue;
      callers.delete(resolve);
      if (callers.size > 0) waiting.set(app, callers);
      held += 1;
      resolve(generation);
    }
  }

  return {
    async acquire(app = '') {
      const given = await new Promise<number>((resolve) => {
        waiting.set(app, (waiting.get(app) ?? new Set()).add(resolve));
        admit();
      });
      let isHeld = true;
      return () => {
        if (isHeld && given === generation) held -= 1;
        isHeld = false;
        admit();
      };
    },
    shrinkToOne(): void {
      limit = 1;
      held = 0;
      generation += 1;
    },
    growByOne(): void {
      limit = Math.min(permits, limit + 1);
      admit();
    },
  };
}
