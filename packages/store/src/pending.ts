import { channelOf, isTracked, PLATFORMS } from '@carillon/core/platforms';
import { hasBit, splitTokens } from '@carillon/core/work';
import type { Db } from 'mongodb';
import type { BatchDocument, InboxDocument, PushDocument, Work } from './documents.ts';

const TRACKED_CHANNELS = new Set(PLATFORMS.filter(isTracked).map(channelOf));

/** Who hasn't received a push yet. */
export function createPending(db: Db) {
  const batches = db.collection<BatchDocument>('batches');
  const inbox = db.collection<InboxDocument>('inbox');

  async function* unclosedWork(push: PushDocument): AsyncGenerator<Work> {
    if (push.work !== undefined) {
      if (push.work.state !== 'closed') yield push.work;
      return;
    }
    const open = batches.find({ push: push._id, 'work.state': { $in: ['waiting', 'ready'] } });
    for await (const { work } of open) yield work;
  }

  return {
    /** Devices of tracked platforms that a push is still owed to, in its inbox or its unclosed work. */
    async devices(push: PushDocument, limit: number): Promise<string[]> {
      const rows = await inbox
        .find({ push: push._id }, { projection: { _id: 1 } })
        .limit(limit)
        .map((row) => row._id.slice(0, row._id.indexOf(':')))
        .toArray();
      const pending = new Set(rows);
      for await (const work of unclosedWork(push)) {
        if (pending.size >= limit) break;
        if (!TRACKED_CHANNELS.has(work.channel)) continue;
        for (const [position, token] of splitTokens(work.tokens).entries()) {
          if (pending.size >= limit) break;
          if (!hasBit(work.got ?? {}, position)) pending.add(token);
        }
      }
      return [...pending];
    },
  };
}
