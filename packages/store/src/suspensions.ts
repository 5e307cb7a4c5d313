import { startInterval } from '@carillon/core/intervals';
import type { Db } from 'mongodb';
import type { AccountDocument, AppDocument } from './documents.ts';

/** Interval between two reads of the suspended accounts and paused apps. */
const REFRESH_MS = 3_000;

/** The apps of suspended accounts and the paused apps, as last read by this process. */
export type Suspensions = ReturnType<typeof createSuspensions>;

/** Excludes documents of some apps; matches everything while there are none. */
type AppFilter = { app?: { $nin: string[] } };

/**
 * Keeps the apps of suspended accounts and the paused apps in memory, so that no push needs a query for them: a process
 * that refreshes sees a change within seconds. Neither has its pushes delivered. Of a suspended account, everything else
 * is refused as well; a paused app goes on accepting pushes, and its devices connect and read their inboxes. While
 * MongoDB is unavailable the last known apps stay so.
 */
export function createSuspensions(db: Db) {
  const accounts = db.collection<AccountDocument>('accounts');
  const apps = db.collection<AppDocument>('apps');
  let suspended = new Set<string>();
  let paused = new Set<string>();
  let stopRefreshing: (() => void) | undefined;

  async function readSuspendedApps(): Promise<Set<string>> {
    const found = await accounts
      .find({ suspendedAt: { $exists: true } }, { projection: { _id: 1 } })
      .toArray();
    if (found.length === 0) return new Set();
    const ids = found.map(({ _id }) => _id);
    const suspendedApps = await apps
      .find({ account: { $in: ids } }, { projection: { _id: 1 } })
      .toArray();
    return new Set(suspendedApps.map(({ _id }) => _id));
  }

  async function readPausedApps(): Promise<Set<string>> {
    const found = await apps
      .find({ pausedAt: { $exists: true } }, { projection: { _id: 1 } })
      .toArray();
    return new Set(found.map(({ _id }) => _id));
  }

  /** Reads them once. */
  async function refresh(): Promise<void> {
    [suspended, paused] = await Promise.all([readSuspendedApps(), readPausedApps()]);
  }

  return {
    refresh,
    /** Checks whether the app's account is suspended. */
    has: (app: string): boolean => suspended.has(app),
    /** Checks whether an operator has paused the app. */
    isPaused: (app: string): boolean => paused.has(app),
    /** Lists the paused apps. */
    listPaused: (): string[] => [...paused],
    /** Checks whether the app's pushes may be delivered: it is not paused, and its account not suspended. */
    mayDeliver: (app: string): boolean => !suspended.has(app) && !paused.has(app),
    /** Builds a filter that excludes the documents of the apps whose pushes may not be delivered. */
    filter: (): AppFilter => excludeApps([...suspended, ...paused]),
    /** Builds a filter that excludes the documents of suspended accounts alone. */
    filterSuspended: (): AppFilter => excludeApps([...suspended]),
    /**
     * Reads them now, and every 3 s from then on. Calls `onResumed` when an account was resumed. A process that delivers
     * waits for the first read.
     *
     * @throws if the first read fails
     */
    async startRefreshing(
      onError: (error: unknown) => void,
      onResumed?: () => void,
    ): Promise<void> {
      async function refreshAndNotify(): Promise<void> {
        const before = suspended;
        await refresh();
        const hasResumed = [...before].some((app) => !suspended.has(app));
        if (hasResumed) onResumed?.();
      }
      stopRefreshing ??= startInterval(() => void refreshAndNotify().catch(onError), REFRESH_MS);
      await refresh();
    },
    stop: (): void => stopRefreshing?.(),
  };
}

function excludeApps(apps: string[]): AppFilter {
  return apps.length === 0 ? {} : { app: { $nin: apps } };
}
