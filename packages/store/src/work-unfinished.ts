import { isBatchId } from '@carillon/core/ids';
import { bitWords } from '@carillon/core/work';
import { Binary, type Collection, type Db } from 'mongodb';
import { fromNow } from './clock.ts';
import type { BatchDocument, PushDocument, PutOffEntry, Work } from './documents.ts';
import type { ClaimedWork, Settlement } from './work-table.ts';

type Holder = { _id: string; state?: string; work?: Work };

/** What is known of work under way. */
export interface UnfinishedWork extends Pick<Settlement, 'id' | 'claim' | 'outcomes'> {
  /** Who is to be tried no earlier than when. */
  later: PutOffEntry[];
}

/** Work that isn't done yet: given back, kept half done, hurried, found again. */
export function createUnfinishedWork(db: Db) {
  const pushes = db.collection<PushDocument>('pushes') as unknown as Collection<Holder>;
  const batches = db.collection<BatchDocument>('batches') as unknown as Collection<Holder>;
  const holderOf = (id: string): Collection<Holder> => (isBatchId(id) ? batches : pushes);

  return {
    /**
     * Gives work back unfinished, due again after `delayMs`, or at once if it was hurried meanwhile, with the
     * receipts it has. Nothing happens if the claim was lost.
     */
    async giveBack(
      { id, claim }: Pick<ClaimedWork, 'id' | 'claim'>,
      delayMs: number,
      received: readonly number[],
    ): Promise<void> {
      const mine = { _id: id, 'work.claim': claim, 'work.state': 'ready' as const };
      if (received.length > 0) {
        const words = [...bitWords(received)].map(([word, bits]) => [
          `work.got.${word}`,
          { or: bits },
        ]);
        await holderOf(id).updateOne(mine, { $bit: Object.fromEntries(words) });
      }
      await holderOf(id).updateOne(mine, [
        { $set: { 'work.at': { $cond: ['$work.hurried', '$$NOW', fromNow(delayMs)] } } },
        { $unset: ['work.claim', 'work.reply', 'work.before', 'work.hurried'] },
      ]);
    },

    /**
     * Keeps the outcomes so far of work that goes on, so that whoever takes over repeats few. False: the claim was
     * lost and nothing was written.
     */
    async saveOutcomes({ id, claim, outcomes, later }: UnfinishedWork): Promise<boolean> {
      const { matchedCount } = await holderOf(id).updateOne(
        { _id: id, 'work.claim': claim, 'work.state': 'ready' },
        { $set: { 'work.outcomes': new Binary(outcomes), 'work.later': later } },
      );
      return matchedCount === 1;
    },

    /**
     * Has an app's work of a channel that waits for its next try tried at once. Who works on some of it now may
     * have met what it had to wait for: that is tried again as soon as it is given back.
     */
    async hurry(app: string, channel: Work['channel']): Promise<void> {
      const begun = {
        app,
        'work.state': 'ready' as const,
        'work.channel': channel,
        // What waits for its first time isn't late.
        'work.tries': { $gt: 0 },
      };
      const isClaimed = { $ne: [{ $type: '$work.claim' }, 'missing'] };
      const hurried = {
        'work.at': { $cond: [isClaimed, '$work.at', '$$NOW'] },
        'work.hurried': { $cond: [isClaimed, true, '$$REMOVE'] },
      };
      await Promise.all(
        [batches, pushes].map((holder) => holder.updateMany(begun as object, [{ $set: hurried }])),
      );
    },

    /** Work of open pushes that is due although nobody works on it: lost jobs, ended leases, delayed retries. */
    async due(limit: number): Promise<{ id: string; channel: Work['channel'] }[]> {
      const filter = { 'work.state': 'ready' as const, $expr: { $lte: ['$work.at', '$$NOW'] } };
      const lists = await Promise.all(
        [
          { holder: pushes, filter: { ...filter, state: 'open' } },
          { holder: batches, filter },
        ].map(({ holder, filter: due }) =>
          holder
            .find(due, { projection: { 'work.channel': 1 } })
            .sort({ 'work.at': 1 })
            .limit(limit)
            .toArray(),
        ),
      );
      return lists
        .flat()
        .flatMap(({ _id, work }) => (work ? [{ id: _id, channel: work.channel }] : []));
    },
  };
}
