import { startInterval } from '@carillon/core/intervals';
import { coverageOf, type WebhookEvent } from '@carillon/core/webhooks';
import type { Db } from 'mongodb';
import type { Clock } from './clock.ts';
import type { NotifyEntry, WebhookDocument } from './documents.ts';

/** Interval between two reads of the webhooks. */
const REFRESH_MS = 3_000;

/** The webhooks of all apps that are on, as last read by this process. */
export type KnownWebhooks = ReturnType<typeof createKnownWebhooks>;

type KnownWebhook = Pick<
  WebhookDocument,
  '_id' | 'app' | 'events' | 'retryAt' | 'testAt' | 'resend'
>;

/**
 * Keeps the webhooks that are on in memory, so that no push needs a query for them: a process that refreshes sees a change
 * within seconds. While MongoDB is unavailable the last known ones count.
 */
export function createKnownWebhooks(db: Db, clock: Pick<Clock, 'now'>) {
  const webhooks = db.collection<WebhookDocument>('webhooks');
  let known: readonly KnownWebhook[] = [];
  let byApp = new Map<string, KnownWebhook[]>();
  let stopRefreshing: (() => void) | undefined;
  let refreshedAt = Number.NEGATIVE_INFINITY;

  /** Reads them once. */
  async function refresh(): Promise<void> {
    const startedAt = performance.now();
    known = await webhooks
      .find<KnownWebhook>(
        { off: { $exists: false } },
        { projection: { app: 1, events: 1, retryAt: 1, testAt: 1, resend: 1 } },
      )
      .sort({ _id: 1 })
      .toArray();
    byApp = Map.groupBy(known, ({ app }) => app);
    refreshedAt = startedAt;
  }

  return {
    refresh,
    /** Reads them if they were not read in the last 3 s, for a process that needs them seldom. */
    async refreshIfStale(): Promise<void> {
      if (performance.now() - refreshedAt >= REFRESH_MS) await refresh();
    },
    /** Reads them now, and every 3 s from then on. */
    async startRefreshing(onError: (error: unknown) => void): Promise<void> {
      await refresh();
      stopRefreshing ??= startInterval(() => void refresh().catch(onError), REFRESH_MS);
    },
    stop: (): void => stopRefreshing?.(),

    /** Builds the entries of a new push of an app: one for each webhook that gets events of pushes. Reads nothing. */
    pushEntries(app: string): NotifyEntry[] {
      return (byApp.get(app) ?? []).flatMap(({ _id: w, events }): NotifyEntry[] => {
        const { pushes, recipients } = coverageOf(events);
        return pushes ? [{ w, v: 0, ...(recipients && { r: true as const }) }] : [];
      });
    },
    /** Returns the webhooks of an app to which an event is reported. Reads nothing. */
    listSubscribed: (app: string, event: WebhookEvent): string[] =>
      (byApp.get(app) ?? []).flatMap(({ _id, events }) => (events.includes(event) ? [_id] : [])),
    /** Lists the webhooks of all apps that are on and not waiting for a retry, in order of id. Reads nothing. */
    listReady: (): Pick<WebhookDocument, '_id' | 'app'>[] =>
      known.filter(({ retryAt }) => retryAt === undefined || retryAt.getTime() <= clock.now()),
    /** Lists the webhooks for which a test event or a resend was requested. Reads nothing. */
    listRequested: (): Pick<WebhookDocument, '_id' | 'app'>[] =>
      known.filter(({ testAt, resend }) => testAt !== undefined || resend !== undefined),
  };
}
