/** A number of places; who finds none waits its turn. */
export interface Semaphore {
  /** Resolves with what gives the place back; giving it back twice is harmless. */
  enter(): Promise<() => void>;
}

/** Makes a semaphore. */
export function createSemaphore(places: number): Semaphore {
  let free = places;
  // A Set keeps the order and drops its first without moving the others.
  const waiting = new Set<() => void>();

  function leave(): void {
    const [next] = waiting;
    if (next === undefined) {
      free += 1;
      return;
    }
    waiting.delete(next);
    next();
  }

  return {
    async enter() {
      if (free > 0) free -= 1;
      else await new Promise<void>((resolve) => void waiting.add(resolve));
      let isHeld = true;
      return () => {
        if (isHeld) leave();
        isHeld = false;
      };
    },
  };
}
