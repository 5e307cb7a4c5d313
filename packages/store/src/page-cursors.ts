import type { Db } from 'mongodb';
import type { PageCursorDocument } from './documents.ts';

/** Cursors of the pages of topics' subscribers. */
export function createPageCursors(db: Db) {
  const cursors = db.collection<PageCursorDocument>('anchors');
  return {
    /**
     * Returns the token after which a page begins; undefined if the page before it wasn't read in the last 10 minutes.
     */
    find: async (app: string, topic: string, page: number): Promise<string | undefined> =>
      (await cursors.findOne({ _id: `${app}:${topic}:${page}` }))?.after,

    /**
     * Sets the token after which a page begins, for 10 minutes. The cursor only moves towards the front, so that a
     * client that is reading the pages misses no subscriber. Returns the cursor that is stored.
     */
    async set(app: string, topic: string, page: number, after: string): Promise<string> {
      const stored = await cursors.findOneAndUpdate(
        { _id: `${app}:${topic}:${page}` },
        { $min: { after }, $setOnInsert: { at: new Date() } },
        { upsert: true, returnDocument: 'after' },
      );
      return stored?.after ?? after;
    },
  };
}
