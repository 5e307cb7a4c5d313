import { createBatcher } from '@carillon/core/batcher';
import type { Db } from 'mongodb';
import { buildDeletion } from './device-deletion.ts';
import type { DeviceDocument, InboxDocument } from './documents.ts';
import type { createReceipts } from './final-outcomes.ts';
import type { KnownWebhooks } from './known-webhooks.ts';
import type { createSubscriptions } from './subscriptions.ts';

/** Maximum rows of a device that are removed together. */
const ROWS_PER_READ = 1_000;

/** Time for which a deleted device may still be found as a subscriber, until it is cleared. */
const CLEANUP_GRACE_MS = 600_000;
/**
 * Maximum recent deletions that are compared with the recipients in this process; if there are more, the recipients are
 * looked up.
 */
const MAX_RECENT_DELETIONS = 1_000;

/** A query for those of these devices that were deleted since a time. */
interface DeletedQuery {
  sinceMs: number;
  tokens: readonly string[];
}

interface Collaborators {
  subscriptions: Pick<ReturnType<typeof createSubscriptions>, 'listTopics' | 'unsubscribe'>;
  receipts: Pick<ReturnType<typeof createReceipts>, 'recordGone'>;
  knownWebhooks: Pick<KnownWebhooks, 'listSubscribed'>;
}

/**
 * Deletes devices and clears their subscriptions and inboxes. The write that deletes a device marks it `leaving`: if
 * the process dies before the device is cleared, the scheduler completes it.
 */
export function createDeletedDevices(
  db: Db,
  { subscriptions, receipts, knownWebhooks }: Collaborators,
) {
  const devices = db.collection<DeviceDocument>('devices');
  const inbox = db.collection<InboxDocument>('inbox');

  const filterDeletedBatched = createBatcher<DeletedQuery, Set<string>>(
    'find-deleted-devices',
    async (queries) => {
      const since = new Date(Math.min(...queries.map(({ sinceMs }) => sinceMs)));
      const recent = await devices
        .find(
          { deletedAt: { $gte: since } },
          { projection: { _id: 1 }, batchSize: MAX_RECENT_DELETIONS + 2 },
        )
        .limit(MAX_RECENT_DELETIONS + 1)
        .toArray();
      const deleted = new Set(recent.map(({ _id }) => _id));
      if (recent.length > MAX_RECENT_DELETIONS)
        return Promise.all(queries.map(({ tokens }) => findDeletedAmong(tokens)));
      return queries.map(({ tokens }) => new Set(tokens.filter((token) => deleted.has(token))));
    },
    { maxBatchSize: 200, maxInFlight: 4 },
  );

  /** For a push that was accepted long ago, or after too many deletions. */
  async function findDeletedAmong(tokens: readonly string[]): Promise<Set<string>> {
    const found = await devices
      .find(
        { _id: { $in: [...tokens] }, deletedAt: { $exists: true } },
        { projection: { _id: 1 }, batchSize: tokens.length + 1 },
      )
      .toArray();
    return new Set(found.map(({ _id }) => _id));
  }

  /** Ends the rows of a device as gone, a page at a time: it may have as many as the quota allows. */
  async function recordInboxAsGone(token: string): Promise<Set<string>> {
    const pushes = new Set<string>();
    const range = { _id: { $gte: `${token}:`, $lt: `${token};` } };
    for (;;) {
      const rows = await inbox
        .find(range, { batchSize: ROWS_PER_READ + 1 })
        .limit(ROWS_PER_READ)
        .toArray();
      await receipts.recordGone(rows.map(({ _id: rowId, ...row }) => ({ rowId, ...row })));
      for (const { push } of rows) pushes.add(push);
      if (rows.length < ROWS_PER_READ) return pushes;
    }
  }

  return {
    /**
     * Deletes an app's device: from then on its requests and connections are rejected.
     *
     * @returns false if the app has no such device
     */
    async markDeleted(app: string, token: string): Promise<boolean> {
      const { modifiedCount } = await devices.updateOne(
        { _id: token, app, deletedAt: { $exists: false } },
        buildDeletion(knownWebhooks.listSubscribed(app, 'device.deleted'), [
          'provider',
          'authDigest',
          'way',
        ]),
      );
      return modifiedCount === 1;
    },

    /**
     * Removes the subscriptions of a deleted device and ends the pushes in its inbox as gone. Idempotent.
     *
     * @returns the pushes that may be complete now
     */
    async clearLeftovers(app: string, token: string): Promise<string[]> {
      const device = await devices.findOne({ _id: token }, { projection: { deletedAt: 1 } });
      if (device !== null && device.deletedAt === undefined) return [];
      await subscriptions.unsubscribe(app, token, await subscriptions.listTopics(token));
      const pushes = await recordInboxAsGone(token);
      await devices.updateOne({ _id: token }, { $unset: { leaving: true } });
      return [...pushes];
    },

    /** Lists deleted devices that aren't cleared yet. */
    listUncleared: async (limit: number): Promise<{ app: string; token: string }[]> => {
      const found = await devices
        .find({ leaving: true }, { projection: { app: 1 } })
        .limit(limit)
        .toArray();
      return found.map(({ _id, app }) => ({ app, token: _id }));
    },

    /**
     * Returns the deleted devices among the recipients of a push. Call it after the rows are written: a device is
     * marked deleted before its inbox is read, so one of the two processes sees the other's write. Concurrent calls
     * share a query; it reads one index entry per recent deletion, whatever the number of recipients.
     *
     * @param acceptedAt of the push: a device that was deleted long before is not a recipient of it
     */
    filterDeleted: (acceptedAt: Date, tokens: readonly string[]): Promise<Set<string>> =>
      tokens.length === 0
        ? Promise.resolve(new Set())
        : filterDeletedBatched({ sinceMs: acceptedAt.getTime() - CLEANUP_GRACE_MS, tokens }),
  };
}
