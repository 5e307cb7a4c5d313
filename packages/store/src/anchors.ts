import type { Db } from 'mongodb';
import type { AnchorDocument } from './documents.ts';

/** Where the pages of topics' subscribers begin. */
export function createAnchors(db: Db) {
  const anchors = db.collection<AnchorDocument>('anchors');
  return {
    /** After which token a page begins; undefined when no page before it was read in the last 10 minutes. */
    find: async (app: string, topic: string, page: number): Promise<string | undefined> =>
      (await anchors.findOne({ _id: `${app}:${topic}:${page}` }))?.after,

    /**
     * Sets where a page begins for the next 10 minutes. It only moves towards the front, so that whoever goes
     * through the pages meanwhile misses nobody. Returns what holds.
     */
    async set(app: string, topic: string, page: number, after: string): Promise<string> {
      const held = await anchors.findOneAndUpdate(
        { _id: `${app}:${topic}:${page}` },
        { $min: { after }, $setOnInsert: { at: new Date() } },
        { upsert: true, returnDocument: 'after' },
      );
      return held?.after ?? after;
    },
  };
}
