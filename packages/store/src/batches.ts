import { splitTokens } from '@carillon/core/batch';
import type { Channel } from '@carillon/core/channels';
import type { Db } from 'mongodb';
import type { ClaimedBatch } from './batch-table.ts';
import { bulkWriteErrors } from './bulk-write.ts';
import type { BatchDocument } from './documents.ts';

/** Batches of an insert: some hundred kilobytes, for which the writes of others wait in MongoDB. */
const BATCHES_PER_INSERT = 20;

function* splitIntoPages(documents: Iterable<BatchDocument>): Generator<BatchDocument[]> {
  let page: BatchDocument[] = [];
  for (const document of documents) {
    page.push(document);
    if (page.length < BATCHES_PER_INSERT) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}

/** Batches that have a document of their own, because their push has more than one. */
export function createBatches(db: Db) {
  const batches = db.collection<BatchDocument>('batches');

  return {
    /** Inserts batches durably, some at a time. Stops and returns false when `shouldContinue` returns false. */
    async insert(
      documents: Iterable<BatchDocument>,
      shouldContinue: () => Promise<boolean>,
    ): Promise<boolean> {
      for (const page of splitIntoPages(documents)) {
        if (!(await shouldContinue())) return false;
        await batches.insertMany(page, { ordered: false });
      }
      return true;
    },

    /** Removes the batches of a push that was never accepted. */
    async removeAll(push: string): Promise<void> {
      await batches.deleteMany({ push });
    },

    /** Removes a claimed batch whose push doesn't exist: the push was purged before the batch was inserted. */
    async removeOrphan({ id, claim }: Pick<ClaimedBatch, 'id' | 'claim'>): Promise<void> {
      await batches.deleteOne({ _id: id, 'work.claim': claim });
    },

    /** Returns the tokens of a batch; none if it does not exist. */
    async listTokens(id: string): Promise<string[]> {
      const found = await batches.findOne({ _id: id }, { projection: { 'work.tokens': 1 } });
      return splitTokens(found?.work.tokens ?? '');
    },

    /** Inserts batches durably; existing ones stay unchanged. */
    async insertIfAbsent(documents: readonly BatchDocument[]): Promise<void> {
      const errors = await bulkWriteErrors(
        batches,
        documents.map((document) => ({ insertOne: { document } })),
      );
      for (const { duplicate, error } of errors.values()) if (!duplicate) throw error;
    },

    /**
     * Makes waiting batches of a push ready in order of their number, so that at most `maxOpen` are ready. Returns the
     * released batches, whether others still wait, and how many more could be ready.
     */
    async release(
      push: string,
      maxOpen: number,
    ): Promise<{
      released: { id: string; channel: Channel; recipients: number }[];
      waiting: boolean;
      free: number;
    }> {
      const ready = await batches.countDocuments(
        // Fallbacks are ready from the start: the fan-out does not wait for those that are due later.
        {
          push,
          'work.state': 'ready',
          $or: [
            { 'work.fallback': { $exists: false } },
            { $expr: { $lte: ['$work.at', '$$NOW'] } },
          ],
        },
        { limit: maxOpen },
      );
      const free = Math.max(0, maxOpen - ready);
      const waitingBatches = await batches
        .find({ push, 'work.state': 'waiting' }, { projection: { 'work.channel': 1, 'work.n': 1 } })
        .sort({ _id: 1 })
        .limit(free + 1)
        .toArray();
      const released = waitingBatches.slice(0, free);
      if (released.length > 0) {
        await batches.updateMany(
          { _id: { $in: released.map((batch) => batch._id) }, 'work.state': 'waiting' },
          [{ $set: { 'work.state': 'ready', 'work.at': '$$NOW' } }],
        );
      }
      return {
        released: released.map(({ _id: id, work: { channel, n: recipients } }) => ({
          ...{ id, channel, recipients },
        })),
        waiting: waitingBatches.length > released.length,
        free: free - released.length,
      };
    },
  };
}
