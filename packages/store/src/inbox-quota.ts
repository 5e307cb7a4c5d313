import { LIMITS } from '@carillon/core/limits';
import type { Db } from 'mongodb';
import type { InboxDocument } from './documents.ts';

/** Number of written rows for each count of an inbox, on average: an inbox exceeds the quota by about as many rows. */
const SAMPLE_ONE_IN = 50;
/** Time for which the knowledge that there are full inboxes is kept. */
const CACHE_MS = 1_000;

/**
 * Devices whose inbox is full: further pushes to them fail with `inbox-full`. The list is short and mostly empty, so a
 * lookup costs little; inboxes are counted by sample, never each of them.
 */
export function createInboxQuota(db: Db, random: () => number = Math.random) {
  const fullInboxes = db.collection<{ _id: string }>('full');
  const inbox = db.collection<InboxDocument>('inbox');
  let hasFullInboxes = true;
  let checkedAt = Number.NEGATIVE_INFINITY;

  async function isFull(token: string): Promise<boolean> {
    const range = { _id: { $gte: `${token}:`, $lt: `${token};` } };
    const rowCount = await inbox.countDocuments(range, { limit: LIMITS.pendingPerDevice });
    return rowCount >= LIMITS.pendingPerDevice;
  }

  return {
    /** Returns those of the tokens whose inbox is full. */
    async filterFull(tokens: readonly string[]): Promise<Set<string>> {
      if (performance.now() - checkedAt > CACHE_MS) {
        hasFullInboxes = (await fullInboxes.estimatedDocumentCount()) > 0;
        checkedAt = performance.now();
      }
      if (!hasFullInboxes) return new Set();
      const found = await fullInboxes.find({ _id: { $in: [...tokens] } }).toArray();
      return new Set(found.map(({ _id }) => _id));
    },

    /** Counts a sample of inboxes that have just grown, and lists the full ones. */
    async sample(tokens: readonly string[]): Promise<void> {
      const sampled = tokens.filter(() => random() * SAMPLE_ONE_IN < 1);
      for (const token of sampled) {
        if (!(await isFull(token))) continue;
        await fullInboxes.updateOne({ _id: token }, { $set: {} }, { upsert: true });
      }
    },

    /** Removes devices from the list whose inbox is below the quota again. Returns how many. */
    async clearBelowQuota(limit: number): Promise<number> {
      let cleared = 0;
      for (const { _id } of await fullInboxes.find().limit(limit).toArray()) {
        if (await isFull(_id)) continue;
        await fullInboxes.deleteOne({ _id });
        cleared += 1;
      }
      return cleared;
    },
  };
}
