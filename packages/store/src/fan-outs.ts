import { newClaimId } from '@carillon/core/ids';
import { type Db, Long } from 'mongodb';
import type { PushDocument } from './documents.ts';

/** A push whose fan-out somebody holds until the lease ends. */
export interface ClaimedFanOut {
  push: Pick<PushDocument, '_id' | 'app' | 'fan' | 'audience'>;
  claim: string;
}

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

    /** Ends a step: the fan-out is due again after `delayMs`, or done. False: the claim was lost. */
    async endStep(
      { push, claim }: ClaimedFanOut,
      end: { done: true } | { done: false; delayMs: number },
    ): Promise<boolean> {
      const at = end.done ? {} : { 'fan.at': { $add: ['$$NOW', Long.fromNumber(end.delayMs)] } };
      const { matchedCount } = await pushes.updateOne({ _id: push._id, 'fan.claim': claim }, [
        { $set: { 'fan.done': end.done, 'fan.seq': { $add: ['$fan.seq', 1] }, ...at } },
        { $unset: 'fan.claim' },
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
