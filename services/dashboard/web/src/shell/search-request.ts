import { useSyncExternalStore } from 'react';

const listeners = new Set<() => void>();
let requests = 0;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Opens the search, whose code comes with the first request. */
export function openSearch(): void {
  requests += 1;
  for (const listener of listeners) listener();
}

/** Returns the number of requests for the search. */
export function useSearchRequests(): number {
  return useSyncExternalStore(subscribe, () => requests);
}
