import type { Db } from 'mongodb';
import type { BatchDocument, InboxDocument, PushDocument } from './documents.ts';

const ACCEPTING_MS = 60_000;

/** What is no longer needed, and what never came to be. */
export function createCleaning(db: Db) {
  const pushes = db.collection<PushDocument>('pushes');
  const batches = db.collection<BatchDocument>('batches');
  const inbox = db.collection<InboxDocument>('inbox');
  return {
    /** Gives up pushes whose accepting broke off: their sender was never told success. */
    async abandon(): Promise<number> {
      const { modifiedCount } = await pushes.updateMany(
        {
          state: 'accepting',
          $expr: { $lt: ['$acceptedAt', { $subtract: ['$$NOW', ACCEPTING_MS] }] },
        },
        [{ $set: { state: 'abandoned', purgeAt: '$$NOW' } }],
      );
      return modifiedCount;
    },

    /** Removes pushes whose time to go has come: rows and batches first, the push last. */
    async purge(limit: number): Promise<number> {
      const ids = await pushes
        .find(
          { purgeAt: { $exists: true }, $expr: { $lte: ['$purgeAt', '$$NOW'] } },
          { projection: { _id: 1 } },
        )
        .sort({ purgeAt: 1 })
        .limit(limit)
        .map((push) => push._id)
        .toArray();
      if (ids.length === 0) return 0;
      await inbox.deleteMany({ push: { $in: ids } });
      await batches.deleteMany({ push: { $in: ids } });
      await pushes.deleteMany({ _id: { $in: ids } });
      return ids.length;
    },

    /** Open pushes in order of expiry and id from after one: what a slow sweep looks at for a lost end. */
    async openAfter(last: SweptPush | undefined, limit: number): Promise<SweptPush[]> {
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

/** Where a sweep over the open pushes stands. */
export interface SweptPush {
  id: string;
  expiresAt: Date;
}
