import { CHANNELS, type Channel } from '@carillon/core/channels';
import { isBatchId } from '@carillon/core/ids';
import { type BatchHolder, type BatchHolders, COMMITTED } from './batch-holders.ts';
import type { Batch } from './documents.ts';
import type { Suspensions } from './suspensions.ts';

/** A batch that is due and not claimed. */
export interface DueBatch {
  id: string;
  app: string;
  channel: Batch['channel'];
  at: Date;
  /**
   * True if no worker has claimed it yet, and the API has added a job that other pushes share: the batch is embedded in
   * a push that was to be sent over MQTT at once.
   */
  isFirstAttempt: boolean;
}

const DUE_FIELDS = {
  app: 1,
  'work.channel': 1,
  'work.at': 1,
  'work.tries': 1,
  dueAt: 1,
} as const;

/** Batches that no worker has: those that are due, and those that wait for a retry. */
export function createDueBatches(
  { pushes, batches }: BatchHolders,
  suspensions: Pick<Suspensions, 'filterSuspended'>,
) {
  const filterDue = (channels: readonly Channel[]) => dueBatchFilter(suspensions, channels);

  /** Reads the batches of open pushes that are due and not claimed, the oldest first of each collection. */
  async function findOldestDue(
    limit: number,
    projection: Record<string, 1>,
    channels: readonly Channel[] = CHANNELS,
  ): Promise<BatchHolder[]> {
    const filter = filterDue(channels);
    const results = await Promise.all(
      [
        { collection: pushes, filter: { ...filter, state: 'open' as const } },
        { collection: batches, filter },
      ].map(({ collection, filter: dueFilter }) =>
        collection
          .find(dueFilter, { projection, ...COMMITTED })
          .sort({ 'work.at': 1 })
          .limit(limit)
          .toArray(),
      ),
    );
    return results.flat();
  }

  /** Reads the MQTT batches that are embedded in open pushes, due and not claimed, the newest first. */
  function findNewestDue(limit: number): Promise<BatchHolder[]> {
    return pushes
      .find(
        { ...filterDue(['mqtt']), state: 'open' as const },
        { projection: DUE_FIELDS, ...COMMITTED },
      )
      .sort({ 'work.at': -1 })
      .limit(limit)
      .toArray();
  }

  return {
    /**
     * Makes an app's batches of a channel that wait for a retry due at once. A claimed batch is due as soon as its
     * worker releases it: the worker may have failed for the reason that has just been removed.
     */
    async retryNow(app: string, channel: Batch['channel']): Promise<void> {
      const attemptedFilter = {
        app,
        'work.state': 'ready' as const,
        'work.channel': channel,
        // A batch that was never claimed is not delayed.
        'work.tries': { $gt: 0 },
      };
      const isClaimed = { $ne: [{ $type: '$work.claim' }, 'missing'] };
      const retryNowFields = {
        'work.at': { $cond: [isClaimed, '$work.at', '$$NOW'] },
        'work.hurried': { $cond: [isClaimed, true, '$$REMOVE'] },
      };
      await Promise.all(
        [batches, pushes].map((collection) =>
          collection.updateMany(attemptedFilter as object, [{ $set: retryNowFields }]),
        ),
      );
    },

    /**
     * Finds batches that are due and not claimed: their job waits or was lost, their lease has ended, or their retry is
     * due.
     *
     * @param limit of each collection. If a collection reaches it, two further reads follow. One takes the oldest
     *   batches of every channel, so that a channel whose workers don't keep up hides no batch of another. The other
     *   takes the pushes that became due last, twice the limit, without first attempts: they hide no retry and no
     *   scheduled push
     */
    async findDue(limit: number): Promise<DueBatch[]> {
      const found = (await findOldestDue(limit, DUE_FIELDS)).flatMap(toDueBatch);
      if (found.length >= limit) {
        const share = Math.ceil(limit / CHANNELS.length);
        const findOf = (channel: Channel) => findOldestDue(share, DUE_FIELDS, [channel]);
        const [newest, ...ofChannels] = await Promise.all([
          findNewestDue(2 * limit),
          ...CHANNELS.map(findOf),
        ]);
        found.push(...ofChannels.flat().flatMap(toDueBatch));
        found.push(...newest.flatMap(toDueBatch).filter(({ isFirstAttempt }) => !isFirstAttempt));
      }
      return [...new Map(found.map((one) => [one.id, one])).values()];
    },

    /**
     * Counts the batches that are due, with one query for each of the two collections.
     *
     * @param limit the count stops at this number in each of them
     * @returns how many, and since when the oldest is due; without `oldest` there is none
     */
    async measureBacklog(limit: number): Promise<{ due: number; oldest?: Date }> {
      const found = await findOldestDue(limit, { 'work.at': 1 });
      const dueTimes = found.flatMap(({ work }) => (work?.at === undefined ? [] : [work.at]));
      const oldest = dueTimes.toSorted((a, b) => a.getTime() - b.getTime())[0];
      return { due: found.length, ...(oldest !== undefined && { oldest }) };
    },
  };
}

/**
 * Filters the batches of these channels that are due and not claimed, but those of suspended accounts. Those of paused
 * apps are among them until a worker parks them (store/parked-batches).
 */
function dueBatchFilter(
  suspensions: Pick<Suspensions, 'filterSuspended'>,
  channels: readonly Channel[],
) {
  return {
    ...suspensions.filterSuspended(),
    'work.state': 'ready' as const,
    // The index begins with the channel. Batches of a newer release's channel are left to a scheduler of that release.
    'work.channel': { $in: channels },
    $expr: { $lte: ['$work.at', '$$NOW'] },
  };
}

function toDueBatch({ _id: id, app = '', work, dueAt }: BatchHolder): DueBatch[] {
  if (work === undefined) return [];
  const { channel, at, tries } = work;
  const isShared = channel === 'mqtt' && !isBatchId(id) && dueAt === undefined;
  const isFirstAttempt = isShared && tries === 0;
  return [{ id, app, channel, at, isFirstAttempt }];
}
