import { newClaimId } from '@carillon/core/ids';
import { type Db, Long } from 'mongodb';
import { COMMITTED } from './batch-holders.ts';
import type { PushDocument } from './documents.ts';
import type { Suspensions } from './suspensions.ts';

/** A push whose fan-out a worker holds until the lease ends. */
export interface ClaimedFanOut {
  push: Pick<
    PushDocument,
    '_id' | 'app' | 'fan' | 'audience' | 'acceptedAt' | 'dueAt' | 'trace' | 'notify'
  >;
  claim: string;
  /** Time of the claim, by MongoDB's clock. */
  claimedAt: Date;
}

/** Result of a step of a fan-out. */
export type StepResult = { cursor?: { from: string; next: number } } & (
  | { done: true }
  | { done: false; delayMs: number }
);

/** Filters the open pushes whose fan-out is due and not claimed, but those of suspended accounts. */
function dueFanOutFilter(suspensions: Pick<Suspensions, 'filter'>) {
  return {
    ...suspensions.filter(),
    state: 'open' as const,
    'fan.done': false as const,
    $expr: { $lte: ['$fan.at', '$$NOW'] },
  };
}

/** Claims on the fan-out of pushes with many batches. */
export function createFanOuts(db: Db, suspensions: Pick<Suspensions, 'filter'>) {
  const pushes = db.collection<PushDocument>('pushes');
  return {
    /**
     * Claims a due fan-out.
     *
     * @returns undefined if it is claimed or done, the push isn't open, or its account is suspended
     */
    async claim(id: string, leaseMs: number): Promise<ClaimedFanOut | undefined> {
      const claim = newClaimId();
      const push = await pushes.findOneAndUpdate(
        {
          _id: id,
          ...dueFanOutFilter(suspensions),
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
          projection: {
            ...{ app: 1, fan: 1, audience: 1, acceptedAt: 1, dueAt: 1, trace: 1 },
            ...{ 'notify.w': 1, 'notify.r': 1 },
          },
          returnDocument: 'after',
          writeConcern: { w: 1, journal: false },
        },
      );
      if (push?.fan.at === undefined) return undefined;
      return { push, claim, claimedAt: new Date(push.fan.at.getTime() - leaseMs) };
    },

    /**
     * Saves the range of a page of the topics' subscribers: the tokens after `from` up to `to`, whose batches are
     * numbered from `next`, and those of them that go by FCM. Call it before the batches are inserted: a page that is
     * repeated then covers the same range with the same batches, though a device may have changed its way meanwhile.
     *
     * @returns false if the claim was lost or the push has ended: nothing is added to it any more
     */
    async beginPage(
      { push, claim }: Omit<ClaimedFanOut, 'claimedAt'>,
      page: { from: string; to: string; next: number; byFcm?: string },
    ): Promise<boolean> {
      const { matchedCount } = await pushes.updateOne(
        { _id: push._id, state: 'open', 'fan.claim': claim },
        {
          $set: {
            'fan.from': page.from,
            'fan.to': page.to,
            'fan.next': page.next,
            ...(page.byFcm !== undefined && { 'fan.byFcm': page.byFcm }),
          },
        },
      );
      return matchedCount === 1;
    },

    /**
     * Ends a step: the fan-out is due again after `delayMs`, or done. `cursor` is the end of the last page whose
     * batches are stored.
     *
     * @returns false if the claim was lost, or the push has ended, and its fan-out with it
     */
    async endStep(
      { push, claim }: Omit<ClaimedFanOut, 'claimedAt'>,
      result: StepResult,
    ): Promise<boolean> {
      const fields = {
        'fan.done': result.done,
        'fan.seq': { $add: ['$fan.seq', 1] },
        ...(!result.done && { 'fan.at': { $add: ['$$NOW', Long.fromNumber(result.delayMs)] } }),
        ...(result.cursor && {
          'fan.from': { $literal: result.cursor.from },
          'fan.next': result.cursor.next,
        }),
      };
      const { matchedCount } = await pushes.updateOne(
        { _id: push._id, state: 'open', 'fan.claim': claim },
        [
          { $set: fields },
          { $unset: ['fan.claim', ...(result.cursor ? ['fan.to', 'fan.byFcm'] : [])] },
        ],
      );
      return matchedCount === 1;
    },

    /**
     * Finds open pushes whose fan-out is due and not claimed, the oldest first. If there are more than the limit, as many of
     * those that became due last follow: what waits of one app hides nothing of another.
     */
    async findDue(limit: number): Promise<{ id: string; app: string; seq: number }[]> {
      const read = (order: 1 | -1) =>
        pushes
          .find(dueFanOutFilter(suspensions), {
            projection: { app: 1, 'fan.seq': 1 },
            ...COMMITTED,
          })
          .sort({ 'fan.at': order })
          .limit(limit)
          .map(({ _id, app, fan }) => ({ id: _id, app, seq: fan.seq }))
          .toArray();
      const oldest = await read(1);
      const all = oldest.length < limit ? oldest : [...oldest, ...(await read(-1))];
      return [...new Map(all.map((one) => [one.id, one])).values()];
    },
  };
}
