import type { HubNeeds } from './hub.ts';

/** The means of a hub in a page or in a worker. */
export const BROWSER_NEEDS: HubNeeds = {
  open(url, handlers) {
    const source = new EventSource(url);
    source.onopen = handlers.onOpen;
    source.onerror = handlers.onError;
    for (const name of ['overview', 'unavailable', 'push'] as const) {
      source.addEventListener(name, ({ data }) => handlers.onEvent(name, String(data)));
    }
    return source;
  },
  now: Date.now,
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};
