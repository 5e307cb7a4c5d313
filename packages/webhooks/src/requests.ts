import type { WebhookRequestDocument } from '@carillon/store/documents';
import { LRUCache } from 'lru-cache';
import type { Db } from 'mongodb';

/** Requests of a webhook that are kept; a process removes older ones each time it has recorded as many. */
export const KEPT_REQUESTS = 100;
/** Maximum webhooks of which a process remembers how many requests it has recorded; it removes older ones of others too. */
const MAX_WEBHOOKS = 10_000;

/** Requests to webhooks: at most {@link KEPT_REQUESTS} of each, and as many more for each process that sends them. */
export function createWebhookRequests(db: Db) {
  const requests = db.collection<WebhookRequestDocument>('webhook_requests');
  /** Requests that were recorded since older ones were removed, by webhook. */
  const recorded = new LRUCache<string, number>({ max: MAX_WEBHOOKS });

  async function removeOld(webhook: string): Promise<void> {
    const oldestKept = await requests
      .find({ webhook }, { projection: { _id: 1 } })
      .sort({ _id: -1 })
      .skip(KEPT_REQUESTS - 1)
      .limit(1)
      .next();
    if (oldestKept !== null) await requests.deleteMany({ webhook, _id: { $lt: oldestKept._id } });
  }

  return {
    /** Records requests of a webhook: one statement, and two more for each {@link KEPT_REQUESTS} of its requests. */
    async record(webhook: string, documents: readonly WebhookRequestDocument[]): Promise<void> {
      await requests.insertMany([...documents]);
      const count = (recorded.get(webhook) ?? KEPT_REQUESTS) + documents.length;
      if (count >= KEPT_REQUESTS) await removeOld(webhook);
      recorded.set(webhook, count >= KEPT_REQUESTS ? 0 : count);
    },
    /** Lists the last requests of a webhook, the newest first. */
    list: (webhook: string): Promise<WebhookRequestDocument[]> =>
      requests.find({ webhook }).sort({ _id: -1 }).limit(KEPT_REQUESTS).toArray(),
    /** Finds a request of a webhook; undefined when it is absent or another webhook's. */
    find: async (webhook: string, id: string): Promise<WebhookRequestDocument | undefined> =>
      (await requests.findOne({ _id: id, webhook })) ?? undefined,
  };
}
