import { CHANNELS } from '@carillon/core/channels';
import { type BatchHolders, FAST_WRITE } from './batch-holders.ts';
import { DUE_FIELDS, type DueBatch, toDueBatch } from './due-batches.ts';
import { DUE_BATCHES_INDEX, DUE_PUSHES_INDEX } from './migrate.ts';
import type { Suspensions } from './suspensions.ts';

/*
 * A worker that is to claim a due batch of a paused app parks it instead: sets its due time to one that is never reached.
 * Otherwise each search for due batches would read those of paused apps again. The due time is the only mark, so every
 * write that changes it, such as the release of a lapsed claim, also ends the parking; the next claim parks the batch
 * again. The scheduler makes parked batches due whose app is not paused any more. That follows from the stored state
 * alone: nothing has to be remembered between the pause and its end.
 */

/** Due time of all parked batches: one value, so that the indexes of due batches lead to those of an app. */
export const PARKED_AT = new Date('9999-01-01T00:00:00Z');

/** Maximum apps whose batches become due in one call. */
const MAX_APPS = 100;

/** Batches of paused apps that are taken out of those that are due. */
export function createParkedBatches(
  { pushes, batches }: BatchHolders,
  suspensions: Pick<Suspensions, 'mayDeliver'>,
) {
  const isParked = { 'work.state': 'ready' as const, 'work.at': PARKED_AT };
  const ofAllChannels = { ...isParked, 'work.channel': { $in: CHANNELS } };
  const parts = [
    {
      collection: pushes,
      filter: { ...ofAllChannels, state: 'open' as const },
      hint: DUE_PUSHES_INDEX,
    },
    { collection: batches, filter: ofAllChannels, hint: DUE_BATCHES_INDEX },
  ];

  async function unparkIn(
    { collection, filter, hint }: (typeof parts)[number],
    limit: number,
  ): Promise<DueBatch[]> {
    const parkedApps = await collection.distinct('app', filter);
    const resumed = parkedApps.flatMap((app = '') => (suspensions.mayDeliver(app) ? [app] : []));
    const apps = takeTurns(resumed).slice(0, MAX_APPS);
    const share = Math.ceil(limit / apps.length);
    const pages = await Promise.all(
      apps.map((app) =>
        collection
          .find({ ...filter, app }, { projection: DUE_FIELDS, hint })
          .limit(share)
          .toArray(),
      ),
    );
    const found = pages.flat();
    if (found.length === 0) return [];
    await collection.updateMany(
      { _id: { $in: found.map(({ _id }) => _id) }, ...isParked },
      [{ $set: { 'work.at': '$$NOW' } }],
      FAST_WRITE,
    );
    // The job of its acceptance has parked it.
    return found.flatMap(toDueBatch).map((batch) => ({ ...batch, isFirstAttempt: false }));
  }

  return {
    /**
     * Makes parked batches due whose app may deliver again, each app's share of them, the oldest first.
     *
     * @param limit maximum batches of each collection
     * @returns the batches, which have no job; one may have become due in another process meanwhile
     */
    unpark: async (limit: number): Promise<DueBatch[]> =>
      (await Promise.all(parts.map((part) => unparkIn(part, limit)))).flat(),
  };
}

/** Begins a list at a random place, so that no app waits behind a hundred others. */
function takeTurns<T>(items: readonly T[]): T[] {
  const first = Math.floor(Math.random() * items.length);
  return [...items.slice(first), ...items.slice(0, first)];
}
