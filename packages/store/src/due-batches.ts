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
  recipients: number;
  at: Date;
  /**
   * True if no worker has claimed it yet, and the API has added a job that other pushes share: the batch is embedded in
   * a push that was to be sent over MQTT at once.
   */
  isFirstAttempt: boolean;
}

/** Fields of a batch that {@link toDueBatch} needs. */
export const DUE_FIELDS = {
  app: 1,
  'work.channel': 1,
  'work.at': 1,
  'work.tries': 1,
  'work.n': 1,
  dueAt: 1,
} as const;

/** Batches that no worker has: those that are due, and those that wait for a retry. */
export function createDueBatches(
  { pushes, batches }: BatchHolders,
  suspensions: Pick<Suspensions, 'filter' | 'filterSuspended'>,
) {
  /** Reads the batches of open pushes that are due and not claimed, the oldest or newest first of each collection. */
  async function readDue(
    limit: number,
    projection: Record<string, 1>,
    {
      channels = CHANNELS,
      order = 1,
      apps = suspensions.filterSuspended(),
    }: {
      channels?: readonly Channel[];
      order?: 1 | -1;
      apps?: ReturnType<Suspensions['filter']>;
    } = {},
  ): Promise<BatchHolder[]> {
    const filter = dueBatchFilter(apps, channels);
    const results = await Promise.all(
      [
        { collection: pushes, filter: { ...filter, state: 'open' as const } },
        { collection: batches, filter },
      ].map(({ collection, filter: dueFilter }) =>
        collection
          .find(dueFilter, { projection, ...COMMITTED })
          .sort({ 'work.at': order })
          .limit(limit)
          .toArray(),
      ),
    );
    return results.flat();
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
     *   takes those that became due last, twice the limit, without first attempts: what waits of one app hides no retry,
     *   fallback or scheduled push of another
     */
    async findDue(limit: number): Promise<DueBatch[]> {
      const found = (await readDue(limit, DUE_FIELDS)).flatMap(toDueBatch);
      if (found.length >= limit) {
        const share = Math.ceil(limit / CHANNELS.length);
        const findOf = (channel: Channel) => readDue(share, DUE_FIELDS, { channels: [channel] });
        const [newest, ...ofChannels] = await Promise.all([
          readDue(2 * limit, DUE_FIELDS, { order: -1 }),
          ...CHANNELS.map(findOf),
        ]);
        found.push(...ofChannels.flat().flatMap(toDueBatch));
        found.push(...newest.filter((one) => !hasFirstJob(one)).flatMap(toDueBatch));
      }
      return [...new Map(found.map((one) => [one.id, one])).values()];
    },

    /**
     * Counts the batches that are due, without those of paused apps, with one query for each of the two collections.
     *
     * @param limit the count stops at this number in each of them
     * @returns how many, and since when the oldest is due; without `oldest` there is none
     */
    async measureBacklog(limit: number): Promise<{ due: number; oldest?: Date }> {
      const found = await readDue(limit, { 'work.at': 1 }, { apps: suspensions.filter() });
      const dueTimes = found.flatMap(({ work }) => (work?.at === undefined ? [] : [work.at]));
      const oldest = dueTimes.toSorted((a, b) => a.getTime() - b.getTime())[0];
      return { due: found.length, ...(oldest !== undefined && { oldest }) };
    },
  };
}

/**
 * Filters the batches of these channels that are due and not claimed. Without suspended accounts, those of paused apps are
 * among them until a worker parks them (store/parked-batches).
 */
function dueBatchFilter(apps: ReturnType<Suspensions['filter']>, channels: readonly Channel[]) {
  return {
    ...apps,
    'work.state': 'ready' as const,
    // The index begins with the channel. Batches of a newer release's channel are left to a scheduler of that release.
    'work.channel': { $in: channels },
    $expr: { $lte: ['$work.at', '$$NOW'] },
  };
}

/** Checks whether no worker has claimed a push that was to be sent at once: the job of the API that accepted it probably waits. */
function hasFirstJob({ _id, work, dueAt }: BatchHolder): boolean {
  return !isBatchId(_id) && work?.tries === 0 && dueAt === undefined;
}

/** Returns what the scheduler needs of a batch; nothing for a push without one. */
export function toDueBatch(holder: BatchHolder): DueBatch[] {
  const { _id: id, app = '', work } = holder;
  if (work === undefined) return [];
  const { channel, at, n: recipients } = work;
  const isFirstAttempt = channel === 'mqtt' && hasFirstJob(holder);
  return [{ id, app, channel, recipients, at, isFirstAttempt }];
}
