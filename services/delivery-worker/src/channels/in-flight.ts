/** Creates a counter of promises in flight. */
export function createInFlight() {
  let count = 0;
  let idleWaiter: PromiseWithResolvers<void> | undefined;

  function onSettled(): void {
    count -= 1;
    if (count > 0) return;
    idleWaiter?.resolve();
    idleWaiter = undefined;
  }

  return {
    /** Counts a promise until it settles, and returns it. */
    track<T>(promise: Promise<T>): Promise<T> {
      count += 1;
      promise.then(onSettled, onSettled);
      return promise;
    },
    /** Resolves when nothing is in flight. */
    idle(): Promise<void> {
      if (count === 0) return Promise.resolve();
      idleWaiter ??= Promise.withResolvers();
      return idleWaiter.promise;
    },
  };
}
