import { createBatcher } from '@carillon/core/batcher';
import { resultWithin } from '@carillon/core/with-timeout';
import { LRUCache } from 'lru-cache';
import type { PresenceServer } from './presence-server.ts';
import { readScript } from './read-script.ts';

/** Number of events in the current window. */
export interface WindowCount {
  count: number;
  /** Milliseconds until the window ends and the count restarts. */
  resetsInMs: number;
}

/** Counts events over all processes. */
export type RateCounter = ReturnType<typeof createRateCounter>;

/** State of one window in this process, used while Redis is not available. */
interface LocalWindow {
  count: number;
  endsAt: number;
  /** Events that are not sent to Redis yet. */
  pendingIncrements: number;
}

interface RateEvent {
  key: string;
  windowMs: number;
}

/** Maximum wait of a request for Redis. A healthy Redis responds in 0.1 ms. */
const REDIS_TIMEOUT_MS = 100;
/** Time after a failure during which Redis is not called, so that only one request waits in that time. */
const RETRY_DELAY_MS = 500;
/** Maximum keys whose window is remembered. */
const MAX_KEYS = 50_000;

const COUNT_EVENTS = readScript('count-events');

/**
 * Creates the rate counter of a process. Events of the same moment share a round trip. Not rate-limiter-flexible: it
 * runs a script per event, and its insurance limiter counts from zero when Redis fails instead of from the last known
 * count (docs/decisions/0015-own-rate-counters.md).
 */
export function createRateCounter(
  { redis, keys }: Pick<PresenceServer, 'redis' | 'keys'>,
  onError: (error: Error) => void,
) {
  const windows = new LRUCache<string, LocalWindow>({ max: MAX_KEYS });
  let retryAt = 0;
  /** Set while a call of Redis is in progress, perhaps one whose events have timed out. */
  let isRequestInFlight = false;

  function findWindow({ key, windowMs }: RateEvent): LocalWindow {
    const now = performance.now();
    const found = windows.get(key);
    if (found !== undefined && found.endsAt > now) return found;
    const newWindow = { count: 0, endsAt: now + windowMs, pendingIncrements: 0 };
    windows.set(key, newWindow);
    return newWindow;
  }

  /** Sends increments to Redis. Records the result even if it arrives after the timeout. */
  async function sendToRedis(
    incrementsByKey: ReadonlyMap<string, PendingIncrement>,
  ): Promise<void> {
    const increments = [...incrementsByKey.values()];
    const argv = increments.flatMap(({ incrementBy, windowMs }) => [incrementBy, windowMs]);
    isRequestInFlight = true;
    try {
      const counters = [...incrementsByKey.keys()].map(keys.counter);
      const results = (await redis.eval(
        COUNT_EVENTS,
        counters.length,
        ...counters,
        ...argv,
      )) as number[];
      for (const [index, { window }] of increments.entries()) {
        window.count = (results[2 * index] ?? window.count) + window.pendingIncrements;
        window.endsAt = performance.now() + (results[2 * index + 1] ?? 0);
      }
    } catch (error) {
      for (const { window, incrementBy } of increments) window.pendingIncrements += incrementBy;
      retryAt = performance.now() + RETRY_DELAY_MS;
      onError(error as Error);
    } finally {
      isRequestInFlight = false;
    }
  }

  const incrementBatched = createBatcher<RateEvent, WindowCount>(
    'count-request',
    async (events) => {
      const entries = events.map((event) => ({ event, window: findWindow(event) }));
      for (const { window } of entries) window.count += 1;
      if (isRequestInFlight || performance.now() < retryAt) {
        for (const { window } of entries) window.pendingIncrements += 1;
      } else {
        await resultWithin(sendToRedis(mergeByKey(entries)), REDIS_TIMEOUT_MS, undefined);
      }
      return toWindowCounts(entries.map(({ window }) => window));
    },
  );
  return {
    /**
     * Counts an event. A window starts with its first event. Never throws and waits at most 100 ms: while Redis is
     * unavailable or slow, the process counts alone from the last known count (guarantee G14).
     */
    increment: (key: string, windowMs: number): Promise<WindowCount> =>
      incrementBatched({ key, windowMs }),
    /** Returns the count as far as this process knows, without calling Redis; 0 if it knows nothing. */
    currentCount(key: string): number {
      const found = windows.get(key);
      return found !== undefined && found.endsAt > performance.now() ? found.count : 0;
    },
  };
}

/** Increment of one key, to be sent to Redis. */
interface PendingIncrement {
  window: LocalWindow;
  windowMs: number;
  incrementBy: number;
}

function mergeByKey(
  events: readonly { event: RateEvent; window: LocalWindow }[],
): Map<string, PendingIncrement> {
  const incrementsByKey = new Map<string, PendingIncrement>();
  for (const { event, window } of events) {
    const { incrementBy } = incrementsByKey.get(event.key) ?? {
      incrementBy: window.pendingIncrements,
    };
    incrementsByKey.set(event.key, {
      window,
      windowMs: event.windowMs,
      incrementBy: incrementBy + 1,
    });
  }
  for (const { window } of incrementsByKey.values()) window.pendingIncrements = 0;
  return incrementsByKey;
}

/** Returns the count at each event: the last event of a window has the full count. */
function toWindowCounts(windows: readonly LocalWindow[]): WindowCount[] {
  const now = performance.now();
  const laterEvents = new Map<LocalWindow, number>();
  const counts: WindowCount[] = [];
  for (const window of windows.toReversed()) {
    const laterCount = laterEvents.get(window) ?? 0;
    laterEvents.set(window, laterCount + 1);
    counts.push({ count: window.count - laterCount, resetsInMs: Math.max(0, window.endsAt - now) });
  }
  return counts.reverse();
}
