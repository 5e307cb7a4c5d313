/** A number of permits; callers wait in order. Own code, not p-limit: a permit is held across several functions. */
export interface Semaphore {
  /** Resolves with a function that releases the permit; a second call does nothing. */
  acquire(): Promise<() => void>;
}

/** Creates a semaphore. */
export function createSemaphore(permits: number): Semaphore {
  let available = permits;
  // A Set keeps the order and removes its first entry without moving the others.
  const waiting = new Set<() => void>();

  function release(): void {
    const [resolveNext] = waiting;
    if (resolveNext === undefined) {
      available += 1;
      return;
    }
    waiting.delete(resolveNext);
    resolveNext();
  }

  return {
    async acquire() {
      if (available > 0) available -= 1;
      else await new Promise<void>((resolve) => void waiting.add(resolve));
      let isHeld = true;
      return () => {
        if (isHeld) release();
        isHeld = false;
      };
    },
  };
}
