/** A number of permits; callers wait in order. Own code, not p-limit: a permit is held across several functions. */
export interface Semaphore {
  /** Resolves with a function that releases the permit; a second call does nothing. */
  acquire(): Promise<() => void>;
}

/** A semaphore whose permits can be limited for a time. */
export interface AdjustableSemaphore extends Semaphore {
  /** Leaves one permit; those that are held stay valid. */
  shrinkToOne(): void;
  /** Gives back one of the permits that were taken away. */
  growByOne(): void;
}

/** Creates a semaphore. */
export function createSemaphore(permits: number): AdjustableSemaphore {
  let limit = permits;
  let held = 0;
  // A Set keeps the order and removes its first entry without moving the others.
  const waiting = new Set<() => void>();

  function admit(): void {
    for (const resolve of waiting) {
      if (held >= limit) return;
      waiting.delete(resolve);
      held += 1;
      resolve();
    }
  }

  return {
    async acquire() {
      await new Promise<void>((resolve) => {
        waiting.add(resolve);
        admit();
      });
      let isHeld = true;
      return () => {
        if (isHeld) held -= 1;
        isHeld = false;
        admit();
      };
    },
    shrinkToOne(): void {
      limit = 1;
    },
    growByOne(): void {
      limit = Math.min(permits, limit + 1);
      admit();
    },
  };
}
