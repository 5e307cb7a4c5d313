/** Knows when nothing is under way any more. */
export interface InFlight {
  /** Passes a promise through; it counts until it settles. */
  track<T>(work: Promise<T>): Promise<T>;
  /** Resolves when nothing is tracked. */
  idle(): Promise<void>;
}

/** @returns an empty count */
export function createInFlight(): InFlight {
  let count = 0;
  let waiting: PromiseWithResolvers<void> | undefined;

  function ended(): void {
    count -= 1;
    if (count > 0) return;
    waiting?.resolve();
    waiting = undefined;
  }

  return {
    track<T>(work: Promise<T>): Promise<T> {
      count += 1;
      work.then(ended, ended);
      return work;
    },
    idle() {
      if (count === 0) return Promise.resolve();
      waiting ??= Promise.withResolvers();
      return waiting.promise;
    },
  };
}
