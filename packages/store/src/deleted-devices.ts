import { createBatcher } from '@carillon/core/batcher';
import { newClaimId } from '@carillon/core/ids';
import { LIMITS } from '@carillon/core/limits';
import type { Collection, Db, Filter } from 'mongodb';
import type { Clock } from './clock.ts';
import { buildDeletion, type DeletionMarks, isUnexpired } from './device-deletion.ts';
import type { DeviceDocument, InboxDocument } from './documents.ts';
import type { createReceipts } from './final-outcomes.ts';
import {
  type Cleared,
  type createFormerDevices,
  FORMER_FIELDS,
  type FormerDevice,
  IS_FORMER,
  IS_NOT_FORMER,
} from './former-devices.ts';
import { inboxRange } from './inbox.ts';
import type { KnownWebhooks } from './known-webhooks.ts';
import { STATUS_RETENTION_MS } from './push-completion.ts';
import type { createSubscriptions } from './subscriptions.ts';

/** Maximum rows of devices that are removed together, and devices whose rows are. */
const ROWS_PER_READ = 1_000;
const INBOXES_PER_READ = 50;

/** Time for which a deleted device may still be found as a subscriber, until it is cleared. */
const CLEANUP_GRACE_MS = 600_000;
/**
 * Maximum recent deletions that are compared with the recipients in this process; if there are more, the recipients are
 * looked up.
 */
const MAX_RECENT_DELETIONS = 1_000;
/** Time after which nothing is stored any more that was sent to a former device while it was new. */
const FORMER_KEPT_MS = LIMITS.timeToLiveMax * 1_000 + STATUS_RETENTION_MS;

/** A query for those of these devices that were deleted since a time. */
interface DeletedQuery {
  sinceMs: number;
  tokens: readonly string[];
}

interface Collaborators {
  subscriptions: Pick<ReturnType<typeof createSubscriptions>, 'listTopics' | 'unsubscribeAll'>;
  receipts: Pick<ReturnType<typeof createReceipts>, 'recordGone'>;
  knownWebhooks: Pick<KnownWebhooks, 'listSubscribed'>;
  formerDevices: Pick<ReturnType<typeof createFormerDevices>, 'handOver'>;
  clock: Pick<Clock, 'now'>;
}

/**
 * Deletes devices, and clears the subscriptions and inboxes of deleted and former ones. The write that deletes or replaces a
 * device marks it `leaving`: if the process dies before the device is cleared, the scheduler completes it.
 */
export function createDeletedDevices(db: Db, collaborators: Collaborators) {
  const devices = db.collection<DeviceDocument>('devices');
  const { markDeleted, markAllDeleted } = createMarks(devices, collaborators);
  return {
    markDeleted,

    /**
     * Deletes former devices, those that were replaced first: no push is stored any more that was sent to them before. Returns
     * how many.
     */
    async deleteOldFormers(nowMs: number, limit: number): Promise<number> {
      const found = await devices
        .find(
          { replacedAt: { $lte: new Date(nowMs - FORMER_KEPT_MS) } },
          { projection: { app: 1 } },
        )
        .sort({ replacedAt: 1 })
        .limit(limit)
        .toArray();
      for (const [app, some] of Map.groupBy(found, (device) => device.app))
        await markAllDeleted(app, { _id: { $in: some.map(({ _id }) => _id) } });
      return found.length;
    },

    /** Deletes devices that have ended, those that ended first. Returns how many. */
    async deleteExpired(nowMs: number, limit: number): Promise<number> {
      const ended = { expiresAt: { $lte: new Date(nowMs) } };
      const found = await devices
        .find(ended, { projection: { app: 1 } })
        .sort({ expiresAt: 1 })
        .limit(limit)
        .toArray();
      // One that was registered again meanwhile has another end.
      for (const [app, some] of Map.groupBy(found, (device) => device.app))
        await markAllDeleted(
          app,
          { _id: { $in: some.map(({ _id }) => _id) }, ...ended },
          { ended: true },
        );
      return found.length;
    },

    /**
     * Deletes those of these devices that were not seen since `before`, have not ended, and are no former ones: their former devices
     * live again, as those of one that has ended. Returns those that this call has deleted.
     */
    async deleteIdle(app: string, tokens: readonly string[], before: Date): Promise<string[]> {
      if (tokens.length === 0) return [];
      const among = { _id: { $in: [...tokens] } };
      const isIdle = {
        lastActiveAt: { $lte: before },
        // A registered address is seen only there.
        'provider.since': { $not: { $gt: before } },
      };
      const isJudged = { ...isUnexpired(collaborators.clock.now()), ...IS_NOT_FORMER };
      const prunedBy = newClaimId();
      await markAllDeleted(app, { ...among, ...isIdle, ...isJudged }, { ended: true, prunedBy });
      const deleted = await devices
        .find({ ...among, prunedBy }, { projection: { _id: 1 }, batchSize: tokens.length + 1 })
        .toArray();
      return deleted.map(({ _id }) => _id);
    },

    /** Has a former device cleared again: it has got topics, which are for its successor. */
    async clearAgain(token: string): Promise<void> {
      await devices.updateOne({ _id: token, ...IS_FORMER }, { $set: { leaving: true } });
    },

    ...createClearing(db, collaborators, { markAllDeleted }),

    /** Lists deleted and former devices that aren't cleared yet, those after a token: one may stay uncleared for long. */
    listUncleared: async (
      after: string,
      limit: number,
    ): Promise<{ app: string; token: string }[]> => {
      const found = await devices
        .find({ leaving: true, _id: { $gt: after } }, { projection: { app: 1 } })
        .sort({ _id: 1 })
        .limit(limit)
        .toArray();
      return found.map(({ _id, app }) => ({ app, token: _id }));
    },

    ...createDeletedLookup(devices),
  };
}

type Marks = ReturnType<typeof createMarks>;

function createMarks(
  devices: Collection<DeviceDocument>,
  { knownWebhooks }: Pick<Collaborators, 'knownWebhooks'>,
) {
  const isThere = { deletedAt: { $exists: false } };
  const buildUpdate = (app: string, marks?: DeletionMarks) =>
    buildDeletion(knownWebhooks.listSubscribed(app, 'device.deleted'), marks);
  return {
    /**
     * Deletes an app's device: from then on its requests and connections are rejected.
     *
     * @returns false if the app has no such device
     */
    async markDeleted(app: string, token: string): Promise<boolean> {
      const filter = { _id: token, app, ...isThere };
      return (await devices.updateOne(filter, buildUpdate(app))).modifiedCount === 1;
    },
    /** Deletes those of an app's devices that match. */
    async markAllDeleted(
      app: string,
      filter: Filter<DeviceDocument>,
      marks?: DeletionMarks,
    ): Promise<void> {
      await devices.updateMany({ ...filter, app, ...isThere }, buildUpdate(app, marks));
    },
  };
}

function createClearing(
  db: Db,
  { subscriptions, receipts, formerDevices }: Collaborators,
  { markAllDeleted }: Pick<Marks, 'markAllDeleted'>,
) {
  const devices = db.collection<DeviceDocument>('devices');
  const inbox = db.collection<InboxDocument>('inbox');

  /** Ends the rows of devices as gone, a page at a time: each may have as many as the quota allows. */
  async function recordInboxAsGone(app: string, tokens: readonly string[]): Promise<Set<string>> {
    const pushes = new Set<string>();
    for (let from = 0; from < tokens.length; ) {
      const ranges = tokens.slice(from, from + INBOXES_PER_READ);
      const rows = await inbox
        .find(
          { $or: ranges.map((token) => ({ _id: inboxRange(token) })) },
          { batchSize: ROWS_PER_READ + 1 },
        )
        .limit(ROWS_PER_READ)
        .toArray();
      await receipts.recordGone(rows.map(({ _id: rowId, ...row }) => ({ app, rowId, ...row })));
      for (const { push } of rows) pushes.add(push);
      if (rows.length < ROWS_PER_READ) from += INBOXES_PER_READ;
    }
    return pushes;
  }

  /** Removes the subscriptions and inboxes of deleted devices. Returns the pushes that may be complete. */
  async function clearStored(app: string, tokens: readonly string[]): Promise<string[]> {
    await subscriptions.unsubscribeAll(app, tokens);
    return [...(await recordInboxAsGone(app, tokens))];
  }

  async function endClearing(tokens: readonly string[]): Promise<void> {
    await devices.updateMany(
      { _id: { $in: [...tokens] } },
      { $unset: { leaving: true, replacedBy: true, replaces: true, prunedBy: true } },
    );
  }

  async function clearFormer(former: FormerDevice): Promise<Cleared> {
    const { _id } = former;
    const { hasTopics, isInDelivery, ...cleared } = await formerDevices.handOver(former);
    if (isInDelivery) return cleared;
    const isThere = { _id, deletedAt: { $exists: false } };
    await devices.updateOne(isThere, { $unset: { leaving: true } });
    // Another process may have given it the topics of an earlier former device since they were listed.
    if (!hasTopics && (await subscriptions.listTopics(_id)).length > 0)
      await devices.updateOne({ _id, ...IS_FORMER }, { $set: { leaving: true } });
    return cleared;
  }

  return {
    /**
     * Clears a deleted or former device. Of a deleted one, it removes the subscriptions, ends the pushes in the inbox as gone,
     * and deletes its former devices, which have its address; of one that has ended they live again: whoever knows an address
     * could end its device. Idempotent; a device that lives is left as it is.
     */
    async clearLeftovers(app: string, token: string): Promise<Cleared> {
      const projection = { ...FORMER_FIELDS, ended: 1 } as const;
      const device = await devices.findOne({ _id: token }, { projection });
      if (device !== null && device.deletedAt === undefined) {
        const isFormer = device.replacedBy !== undefined;
        return isFormer ? clearFormer(device) : { pushes: [], fallbacks: [] };
      }
      const pushes = await clearStored(app, [token]);
      const formers = { replacedBy: token };
      if (device?.ended === true) await devices.updateMany(formers, { $set: { leaving: true } });
      else await markAllDeleted(app, formers);
      if (device?.replacedBy !== undefined) {
        const successor = { _id: device.replacedBy, replaces: token };
        await devices.updateOne(successor, { $unset: { replaces: true } });
      }
      await endClearing([token]);
      return { pushes, fallbacks: [] };
    },

    /** Clears devices that `deleteIdle` has deleted, as `clearLeftovers` does. Returns the pushes that may be complete. */
    async clearIdle(app: string, tokens: readonly string[]): Promise<string[]> {
      if (tokens.length === 0) return [];
      const pushes = await clearStored(app, tokens);
      await devices.updateMany({ replacedBy: { $in: [...tokens] } }, { $set: { leaving: true } });
      await endClearing(tokens);
      return pushes;
    },
  };
}

function createDeletedLookup(devices: Collection<DeviceDocument>) {
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

  return {
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
