/** Value that parts outside of React set, and that a component shows. */
export interface MessageStore<T> {
  get(): T;
  set(value: T): void;
  /** Calls a function after each change, until the returned function is called. */
  subscribe(listener: () => void): () => void;
}

/** Creates a store for `useSyncExternalStore`. */
export function createMessageStore<T>(initial: T): MessageStore<T> {
  const listeners = new Set<() => void>();
  let current = initial;
  return {
    get: () => current,
    set(value) {
      current = value;
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
