import { splitTokens } from '@carillon/core/work';
import type { Db } from 'mongodb';
import type { BatchDocument, PushDocument } from './documents.ts';

/** Newer pushes of one key that are looked at; the newest first. */
const NEWER_PUSHES = 100;

/** Which recipients of a push have a newer one of its collapse key. */
export function createCollapse(db: Db) {
  const pushes = db.collection<PushDocument>('pushes');
  const batches = db.collection<BatchDocument>('batches');
  return {
    /**
     * Tokens between `from` and `to` that a newer push of the same app and key is for (guarantee G9). Topic
     * audiences count as soon as their batches are made; until then the inbox and the gateway decide.
     */
    async newerRecipients(
      push: { _id: string; app: string; collapse: string },
      from: string,
      to: string,
    ): Promise<Set<string>> {
      const newer = await pushes
        .find(
          {
            app: push.app,
            collapse: push.collapse,
            _id: { $gt: push._id },
            state: { $in: ['open', 'finished'] },
          },
          { projection: { 'work.tokens': 1 } },
        )
        .sort({ _id: -1 })
        .limit(NEWER_PUSHES)
        .toArray();
      const tokens = new Set(newer.flatMap(({ work }) => splitTokens(work?.tokens ?? '')));
      const inBatches = newer.flatMap(({ _id, work }) => (work === undefined ? [_id] : []));
      if (inBatches.length === 0) return tokens;
      const overlapping = batches.find(
        { push: { $in: inBatches }, from: { $lte: to }, to: { $gte: from } },
        { projection: { 'work.tokens': 1 } },
      );
      for await (const { work } of overlapping) {
        for (const token of splitTokens(work.tokens)) tokens.add(token);
      }
      return tokens;
    },
  };
}
