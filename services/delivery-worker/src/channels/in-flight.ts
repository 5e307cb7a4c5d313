/** Counter of promises in flight. */
export interface InFlight {
  /** Counts a promise until it settles, and returns it. */
  track<T>(promise: Promise<T>): Promise<T>;
  /** Resolves when nothing is in flight. */
  idle(): Promise<void>;
}

/** Creates a counter at zero. */
export function createInFlight(): InFlight {
  let count = 0;
  let idleWaiter: PromiseWithResolvers<void> | undefined;

  function onSettled(): void {
    count -= 1;
    if (count > 0) return;
    idleWaiter?.resolve();
    idleWaiter = undefined;
  }

  return {
    track<T>(promise: Promise<T>): Promise<T> {
      count += 1;
      promise.then(onSettled, onSettled);
      return promise;
    },
    idle() {
      if (count === 0) return Promise.resolve();
      idleWaiter ??= Promise.withResolvers();
      return idleWaiter.promise;
    },
  };
}
