import { findProblems, type HealthFacts } from '@carillon/admin/health';
import type { FiguresSnapshot } from '@carillon/presence/figures-reader';
import type { AppsState } from './apps.ts';
import type { LiveState } from './overview.ts';

/** Interval of the reads while there are viewers, and greatest age of what a request gets. */
const READ_INTERVAL_MS = 5_000;

/** Is called after each read while it is subscribed. */
export interface LiveListener {
  update(state: LiveState): void;
  /** @param since when the last read succeeded, milliseconds; null if none has */
  unavailable(since: number | null): void;
}

/** Resources of the shared reader. */
export interface LiveReaderResources {
  figures: { read(): Promise<FiguresSnapshot> };
  readApps(): Promise<AppsState>;
  readHealth(): Promise<HealthFacts>;
  intervalMs?: number;
}

/**
 * Creates the one reader of the figures that all viewers of a process share: it reads every 5 s while there is a
 * subscriber, and otherwise nothing.
 */
export function createLiveReader({
  figures,
  readApps,
  readHealth,
  intervalMs = READ_INTERVAL_MS,
}: LiveReaderResources) {
  const listeners = new Set<LiveListener>();
  let latest: LiveState | undefined;
  let latestAt = Number.NEGATIVE_INFINITY;
  let readAt: number | null = null;
  let inFlight: Promise<LiveState> | undefined;
  let timer: NodeJS.Timeout | undefined;

  async function readNow(): Promise<LiveState> {
    const [snapshot, apps, facts] = await Promise.all([figures.read(), readApps(), readHealth()]);
    // While MongoDB is slow, the figures are shown with the refused credentials read before.
    const refusals = facts.refusals ?? latest?.refusals ?? [];
    latest = {
      figures: snapshot,
      apps,
      refusals,
      refusalsAt: facts.refusals === undefined ? (latest?.refusalsAt ?? null) : Date.now(),
      problems: findProblems({ ...facts, refusals }, Date.now()),
    };
    latestAt = performance.now();
    readAt = Date.now();
    return latest;
  }

  function refresh(): Promise<LiveState> {
    inFlight ??= readNow().finally(() => {
      inFlight = undefined;
    });
    return inFlight;
  }

  async function poll(): Promise<void> {
    try {
      const state = await refresh();
      for (const listener of listeners) listener.update(state);
    } catch {
      for (const listener of listeners) listener.unavailable(readAt);
    }
  }

  /** Returns a state of the last 5 s; requests at the same time share a read. Throws if Redis fails. */
  async function read(): Promise<LiveState> {
    const isFresh = latest !== undefined && performance.now() - latestAt < intervalMs;
    return isFresh && latest !== undefined ? latest : refresh();
  }

  /** Calls a listener now and after each read, until the returned function is called. */
  function subscribe(listener: LiveListener): () => void {
    listeners.add(listener);
    timer ??= setInterval(() => void poll(), intervalMs).unref();
    void read().then(
      (state) => listeners.has(listener) && listener.update(state),
      () => listeners.has(listener) && listener.unavailable(readAt),
    );
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    };
  }

  return { read, subscribe };
}
