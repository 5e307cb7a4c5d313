import { startInterval } from '@carillon/core/intervals';
import type { Db } from 'mongodb';
import type { AccountDocument, AppDocument } from './documents.ts';

/** Interval between two reads of the suspended accounts. */
const REFRESH_MS = 3_000;

/** The apps of suspended accounts, as last read by this process. */
export type Suspensions = ReturnType<typeof createSuspensions>;

/**
 * Keeps the suspended apps in memory, so that no push needs a query for them: a process that refreshes sees a change
 * within seconds. While MongoDB is unavailable the last known apps stay suspended.
 */
export function createSuspensions(db: Db) {
  const accounts = db.collection<AccountDocument>('accounts');
  const apps = db.collection<AppDocument>('apps');
  let suspended = new Set<string>();
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

  /** Reads them once. */
  async function refresh(): Promise<void> {
    suspended = await readSuspendedApps();
  }

  return {
    refresh,
    has: (app: string): boolean => suspended.has(app),
    /** Builds a filter that excludes their documents; matches everything while no account is suspended. */
    filter: (): { app?: { $nin: string[] } } =>
      suspended.size === 0 ? {} : { app: { $nin: [...suspended] } },
    /** Reads them every 3 s. Calls `onResumed` when an account was resumed. */
    startRefreshing(onError: (error: unknown) => void, onResumed?: () => void): void {
      async function refreshAndNotify(): Promise<void> {
        const before = suspended;
        await refresh();
        const hasResumed = [...before].some((app) => !suspended.has(app));
        if (hasResumed) onResumed?.();
      }
      void refreshAndNotify().catch(onError);
      stopRefreshing ??= startInterval(() => void refreshAndNotify().catch(onError), REFRESH_MS);
    },
    stop: (): void => stopRefreshing?.(),
  };
}
