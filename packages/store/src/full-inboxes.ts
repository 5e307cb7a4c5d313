import { LIMITS } from '@carillon/core/limits';
import type { Db } from 'mongodb';
import type { InboxDocument } from './documents.ts';

/** One row in so many is looked at when it is written: the cap is met with a slack of about as many rows. */
const LOOK_AT_ONE_IN = 50;
const KNOWN_FOR_MS = 1_000;

/**
 * Devices whose inbox is full: what comes beyond the cap fails visibly. The list is short and mostly empty, so
 * asking it costs nothing; inboxes are counted by sample, never one by one.
 */
export function createFullInboxes(db: Db, random: () => number = Math.random) {
  const full = db.collection<{ _id: string }>('full');
  const inbox = db.collection<InboxDocument>('inbox');
  let isAny = true;
  let readAt = Number.NEGATIVE_INFINITY;

  async function isFull(token: string): Promise<boolean> {
    const range = { _id: { $gte: `${token}:`, $lt: `${token};` } };
    const n = await inbox.countDocuments(range, { limit: LIMITS.pendingPerDevice });
    return n >= LIMITS.pendingPerDevice;
  }

  return {
    /** Those of the tokens whose inbox takes nothing more. */
    async among(tokens: readonly string[]): Promise<Set<string>> {
      if (performance.now() - readAt > KNOWN_FOR_MS) {
        isAny = (await full.estimatedDocumentCount()) > 0;
        readAt = performance.now();
      }
      if (!isAny) return new Set();
      const found = await full.find({ _id: { $in: [...tokens] } }).toArray();
      return new Set(found.map(({ _id }) => _id));
    },

    /** Counts a sample of inboxes that have just grown, and notes the full ones. */
    async lookAtSome(tokens: readonly string[]): Promise<void> {
      const sample = tokens.filter(() => random() * LOOK_AT_ONE_IN < 1);
      for (const token of sample) {
        if (!(await isFull(token))) continue;
        await full.updateOne({ _id: token }, { $set: {} }, { upsert: true });
      }
    },

    /** Forgets devices whose inbox has room again. */
    async forgetEmptied(limit: number): Promise<number> {
      let forgotten = 0;
      for (const { _id } of await full.find().limit(limit).toArray()) {
        if (await isFull(_id)) continue;
        await full.deleteOne({ _id });
        forgotten += 1;
      }
      return forgotten;
    },
  };
}
