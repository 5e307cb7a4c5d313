import { BATCH_LEASE_MS } from '@carillon/core/batch';
import { CHANNELS, type Channel } from '@carillon/core/channels';
import type { Clock } from '@carillon/store/clock';
import { DUE_BATCHES_INDEX, DUE_PUSHES_INDEX } from '@carillon/store/migrate';
import type { Suspensions } from '@carillon/store/suspensions';
import type { Collection, Db, Document } from 'mongodb';

/** Maximum duration of one count, which a long backlog of suspended accounts would lengthen. */
export const COUNT_TIMEOUT_MS = 2_000;

/** Batches of one channel that are not closed. */
export interface ChannelBacklog {
  /** Batches that workers have or could have now; at most the limit. */
  pending: number;
  /** Batches that wait for a retry, a fallback, an unavailable provider or the end of a pause; at most the limit. */
  deferred: number;
  /** Age of the oldest pending batch that no worker has, in milliseconds; 0 without one. */
  oldestMs: number;
}

/** One kind of batches: those of a collection in some states. All its fields are in the index. */
export interface BatchSet {
  collection: Collection;
  filter: Document;
  hint: Document;
}

/** The kinds of batches that are not closed. */
export function openBatchSets(db: Db): Record<'embedded' | 'ready' | 'waiting', BatchSet> {
  const batches = { collection: db.collection('batches'), hint: DUE_BATCHES_INDEX };
  return {
    embedded: {
      collection: db.collection('pushes'),
      filter: { 'work.state': 'ready', state: 'open' },
      hint: DUE_PUSHES_INDEX,
    },
    ready: { ...batches, filter: { 'work.state': 'ready' } },
    waiting: { ...batches, filter: { 'work.state': 'waiting' } },
  };
}

/**
 * Measures the work of each channel, from the indexes alone: no document is read.
 *
 * Pending are the batches that are due within a lease: a claimed batch is due when its lease ends, so work in progress
 * counts until it is settled. Batches that a push has not released yet count as well, once the push is due. Subscribers
 * of a topic that its fan-out has not read yet are in no batch; they become batches as the earlier ones are closed.
 * Batches of suspended accounts count nowhere: no worker may claim them. Those of paused apps are deferred once they are
 * parked.
 */
export function createBacklog(
  db: Db,
  clock: Clock,
  suspensions: Pick<Suspensions, 'filterSuspended'>,
) {
  const { embedded, ready, waiting } = openBatchSets(db);

  return {
    /**
     * Measures the backlog of a channel.
     *
     * @param limit each count stops at this number
     */
    async measure(channel: Channel, limit: number): Promise<ChannelBacklog> {
      const now = clock.now();
      const horizon = new Date(now + BATCH_LEASE_MS);
      const common = { 'work.channel': channel, ...suspensions.filterSuspended() };
      const count = ({ collection, filter, hint }: BatchSet, dueAt: Document) =>
        collection.countDocuments(
          { ...common, ...filter, 'work.at': dueAt },
          { hint, limit, maxTimeMS: COUNT_TIMEOUT_MS },
        );
      const findOldest = ({ collection, filter, hint }: BatchSet) =>
        collection
          .find<{ work: { at: Date } }>(
            { ...common, ...filter, 'work.at': { $lte: new Date(now) } },
            { projection: { _id: 0, 'work.at': 1 }, hint, maxTimeMS: COUNT_TIMEOUT_MS },
          )
          .sort({ 'work.at': 1 })
          .limit(1)
          .next();
      const [pending, deferred, oldest] = await Promise.all([
        Promise.all([embedded, ready, waiting].map((set) => count(set, { $lte: horizon }))),
        Promise.all([count(embedded, { $gt: horizon }), count(ready, { $gt: horizon })]),
        Promise.all([embedded, ready, waiting].map(findOldest)),
      ]);
      const ages = oldest.map((found) => (found === null ? 0 : now - found.work.at.getTime()));
      return {
        pending: Math.min(limit, sum(pending)),
        deferred: Math.min(limit, sum(deferred)),
        oldestMs: Math.max(...ages),
      };
    },
  };
}

/** Maximum count of a channel's batches: more would require no more workers. */
const MAX_COUNTED = 100_000;

/** Measures the backlogs of all channels, up to 100,000 batches each. */
export async function measureChannels({
  measure,
}: Pick<ReturnType<typeof createBacklog>, 'measure'>): Promise<
  (ChannelBacklog & { channel: Channel })[]
> {
  const channels: (ChannelBacklog & { channel: Channel })[] = [];
  // One after the other: a count of 100,000 takes MongoDB about 0.2 s.
  for (const channel of CHANNELS)
    channels.push({ channel, ...(await measure(channel, MAX_COUNTED)) });
  return channels;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, n) => total + n, 0);
}
