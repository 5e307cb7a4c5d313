import { LRUCache } from 'lru-cache';
import type { Db } from 'mongodb';

/** Requests of a webhook that are kept; a process removes older ones each time it has recorded as many. */
export const KEPT_REQUESTS = 100;
/** Maximum webhooks of which a process remembers how many requests it has recorded; it removes older ones of others too. */
const MAX_WEBHOOKS = 10_000;

/** A request to a webhook, and its response. */
export interface WebhookRequestDocument {
  /** Ids sort by time. */
  _id: string;
  webhook: string;
  /** When it was sent; the record is removed some days later. */
  at: Date;
  /** The response's status, or the reason why there was none. */
  status?: number;
  error?: string;
  /** Until the response's headers. */
  milliseconds: number;
  /** Ids of its events, from which they are built again: the events themselves are not kept. */
  events: string[];
  /** Number of its events by type. */
  types: { type: string; count: number }[];
  /** Size of its body. */
  bytes: number;
  /** How often the most tried of its events were sent before, and this time; absent for a test event and a resend. */
  attempt?: number;
  /** The request that it repeats. */
  resendOf?: string;
  /** Readable start of the response's body; absent if the body was empty or late. */
  answer?: string;
}

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
