import { newClaimId } from '@carillon/core/ids';
import { type Db, Long } from 'mongodb';
import type { PushDocument } from './documents.ts';

/** A push whose fan-out somebody holds until the lease ends. */
export interface ClaimedFanOut {
  push: Pick<PushDocument, '_id' | 'app' | 'fan' | 'audience'>;
  claim: string;
}

/** How a step of a fan-out ends. */
export type StepEnd = { cursor?: { from: string; next: number } } & (
  | { done: true }
  | { done: false; delayMs: number }
);

/** Claims on the fan-out of pushes with many batches. */
export function createFanOuts(db: Db) {
  const pushes = db.collection<PushDocument>('pushes');
  return {
    /** Takes a due fan-out; undefined: somebody holds it, it is done, or the push isn't open. */
    async claim(id: string, leaseMs: number): Promise<ClaimedFanOut | undefined> {
      const claim = newClaimId();
      const push = await pushes.findOneAndUpdate(
        {
          _id: id,
          state: 'open',
          'fan.done': false,
          $expr: { $lte: ['$fan.at', '$$NOW'] },
        },
        [
          {
            $set: {
              'fan.claim': { $literal: claim },
              'fan.at': { $add: ['$$NOW', Long.fromNumber(leaseMs)] },
            },
          },
        ],
        {
          projection: { app: 1, fan: 1, audience: 1 },
          returnDocument: 'after',
          writeConcern: { w: 1, journal: false },
        },
      );
      return push === null ? undefined : { push, claim };
    },

    /**
     * Begins a page of the topics' subscribers: the tokens after `from` up to `to`, whose batches are numbered from
     * `next`. Kept before the batches are, so that a page done twice covers the same range with the same batches.
     * False: the claim was lost.
     */
    async beginPage(
      { push, claim }: ClaimedFanOut,
      page: { from: string; to: string; next: number },
    ): Promise<boolean> {
      const { matchedCount } = await pushes.updateOne(
        { _id: push._id, 'fan.claim': claim },
        { $set: { 'fan.from': page.from, 'fan.to': page.to, 'fan.next': page.next } },
      );
      return matchedCount === 1;
    },

    /**
     * Ends a step: the fan-out is due again after `delayMs`, or done. `cursor` is the end of the last page whose
     * batches are kept. False: the claim was lost.
     */
    async endStep({ push, claim }: ClaimedFanOut, end: StepEnd): Promise<boolean> {
      const set = {
        'fan.done': end.done,
        'fan.seq': { $add: ['$fan.seq', 1] },
        ...(!end.done && { 'fan.at': { $add: ['$$NOW', Long.fromNumber(end.delayMs)] } }),
        ...(end.cursor && {
          'fan.from': { $literal: end.cursor.from },
          'fan.next': end.cursor.next,
        }),
      };
      const { matchedCount } = await pushes.updateOne({ _id: push._id, 'fan.claim': claim }, [
        { $set: set },
        { $unset: ['fan.claim', ...(end.cursor ? ['fan.to'] : [])] },
      ]);
      return matchedCount === 1;
    },

    /** Open pushes whose fan-out is due although nobody works on it. */
    due: (limit: number): Promise<{ id: string; seq: number }[]> =>
      pushes
        .find(
          { state: 'open', 'fan.done': false, $expr: { $lte: ['$fan.at', '$$NOW'] } },
          { projection: { 'fan.seq': 1 } },
        )
        .sort({ 'fan.at': 1 })
        .limit(limit)
        .map(({ _id, fan }) => ({ id: _id, seq: fan.seq }))
        .toArray(),
  };
}
