import type { Channel } from '@carillon/core/platforms';
import type { Db } from 'mongodb';
import type { BatchDocument } from './documents.ts';
import { bulkErrors } from './inserting.ts';

const BATCHES_PER_INSERT = 20;
const INSERTS_IN_FLIGHT = 4;

/** Batches: recipients of pushes that don't hold their only batch themselves. */
export function createBatches(db: Db) {
  const batches = db.collection<BatchDocument>('batches');

  return {
    /** Keeps batches for good, several inserts at a time. */
    async insert(documents: readonly BatchDocument[]): Promise<void> {
      let next = 0;
      async function insertSome(): Promise<void> {
        while (next < documents.length) {
          const some = documents.slice(next, next + BATCHES_PER_INSERT);
          next += some.length;
          await batches.insertMany(some, { ordered: false });
        }
      }
      await Promise.all(Array.from({ length: INSERTS_IN_FLIGHT }, insertSome));
    },

    /** Keeps batches for good; those that are there already stay as they are. */
    async insertPage(documents: readonly BatchDocument[]): Promise<void> {
      const errors = await bulkErrors(
        batches,
        documents.map((document) => ({ insertOne: { document } })),
      );
      for (const { duplicate, error } of errors.values()) if (!duplicate) throw error;
    },

    /**
     * Releases waiting batches of a push in order of their number, so that at most `open` are released and not
     * closed. Returns those released now, whether any still waits, and how many more may be open.
     */
    async release(
      push: string,
      open: number,
    ): Promise<{ released: { id: string; channel: Channel }[]; waiting: boolean; free: number }> {
      const ready = await batches.countDocuments(
        // Fallbacks wait for their time, and the fan-out not for them.
        { push, 'work.state': 'ready', 'work.fallback': { $exists: false } },
        { limit: open },
      );
      const free = Math.max(0, open - ready);
      const next = await batches
        .find({ push, 'work.state': 'waiting' }, { projection: { 'work.channel': 1 } })
        .sort({ _id: 1 })
        .limit(free + 1)
        .toArray();
      const released = next.slice(0, free);
      if (released.length > 0) {
        await batches.updateMany(
          { _id: { $in: released.map((batch) => batch._id) }, 'work.state': 'waiting' },
          [{ $set: { 'work.state': 'ready', 'work.at': '$$NOW' } }],
        );
      }
      return {
        released: released.map(({ _id, work }) => ({ id: _id, channel: work.channel })),
        waiting: next.length > released.length,
        free: free - released.length,
      };
    },
  };
}
