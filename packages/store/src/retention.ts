import { failpoint } from '@carillon/core/failpoint';
import type { Db } from 'mongodb';
import { ABANDON_UPDATE, IS_LEASE_EXPIRED } from './accepting-lease.ts';
import type { BatchDocument, InboxDocument, PushDocument } from './documents.ts';

/** Minimum age of a push in state `accepting` that is abandoned. */
const MIN_ACCEPTING_AGE_MS = 60_000;

/** Removes what has passed its retention, and pushes whose acceptance was interrupted. */
export function createRetention(db: Db) {
  const pushes = db.collection<PushDocument>('pushes');
  const batches = db.collection<BatchDocument>('batches');
  const inbox = db.collection<InboxDocument>('inbox');
  return {
    /**
     * Abandons pushes whose acceptance was interrupted: their sender has no success response. A push whose owner still
     * renews its lease stays, however old it is. Returns how many were abandoned.
     */
    async abandonStale(): Promise<number> {
      const isOld = { $lt: ['$acceptedAt', { $subtract: ['$$NOW', MIN_ACCEPTING_AGE_MS] }] };
      const { modifiedCount } = await pushes.updateMany(
        { state: 'accepting', $expr: { $and: [isOld, IS_LEASE_EXPIRED] } },
        ABANDON_UPDATE,
      );
      return modifiedCount;
    },

    /**
     * Removes pushes whose retention has ended: rows and batches first, the push last.
     *
     * @param keepUnreported returns those of some pushes with webhooks that are kept for a report
     * @returns how many were removed or kept
     */
    async purge(
      limit: number,
      keepUnreported: (ids: readonly string[]) => Promise<Set<string>>,
    ): Promise<number> {
      const found = await pushes
        .find(
          { purgeAt: { $exists: true }, $expr: { $lte: ['$purgeAt', '$$NOW'] } },
          { projection: { 'notify.w': 1 } },
        )
        .sort({ purgeAt: 1 })
        .limit(limit)
        .toArray();
      const kept = await keepUnreported(
        found.flatMap(({ _id, notify }) => (notify === undefined ? [] : [_id])),
      );
      const ids = found.flatMap(({ _id }) => (kept.has(_id) ? [] : [_id]));
      if (ids.length === 0) return found.length;
      failpoint('purge');
      await inbox.deleteMany({ push: { $in: ids } });
      failpoint('purge-rows');
      await batches.deleteMany({ push: { $in: ids } });
      await pushes.deleteMany({ _id: { $in: ids } });
      return found.length;
    },

    /**
     * Removes batches whose push doesn't exist, among `limit` batches after the push `after`, in order of push. A
     * process that was frozen for hours may have inserted them. Returns how many, and the last push that was checked.
     */
    async removeOrphans(after: string, limit: number): Promise<{ removed: number; last: string }> {
      const found = await batches
        .aggregate<{ _id: string; there: object[] }>(buildPushLookup(after, limit))
        .toArray();
      const orphaned = found.flatMap(({ _id, there }) => (there.length === 0 ? [_id] : []));
      const last = found.at(-1)?._id ?? '';
      if (orphaned.length === 0) return { removed: 0, last };
      const { deletedCount } = await batches.deleteMany({ push: { $in: orphaned } });
      return { removed: deletedCount, last };
    },

    /**
     * Lists open pushes after a cursor, in order of expiry and id, for the slow scan that finds lost completion checks.
     */
    async listOpenAfter(
      last: OpenPushCursor | undefined,
      limit: number,
    ): Promise<OpenPushCursor[]> {
      const from = last?.expiresAt ?? new Date(0);
      const found = await pushes
        .find(
          {
            state: 'open',
            expiresAt: { $gte: from },
            $or: [{ expiresAt: { $gt: from } }, { _id: { $gt: last?.id ?? '' } }],
          },
          { projection: { expiresAt: 1 }, batchSize: limit + 1 },
        )
        .sort({ expiresAt: 1, _id: 1 })
        .limit(limit)
        .toArray();
      return found.map((push) => ({ id: push._id, expiresAt: push.expiresAt }));
    },
  };
}

/** Position of the scan of the open pushes. */
export interface OpenPushCursor {
  id: string;
  expiresAt: Date;
}

/** Builds the query of the pushes that batches after the push `after` name, each with the id of the push if it exists. */
function buildPushLookup(after: string, limit: number) {
  return [
    { $match: { push: { $gt: after } } },
    { $sort: { push: 1 } },
    { $limit: limit },
    { $group: { _id: '$push' } },
    {
      $lookup: {
        from: 'pushes',
        localField: '_id',
        foreignField: '_id',
        pipeline: [{ $project: { _id: 1 } }],
        as: 'there',
      },
    },
    { $sort: { _id: 1 } },
  ];
}
