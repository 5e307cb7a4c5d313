import { BATCH_LEASE_MS } from '@carillon/core/batch';
import { CHANNELS } from '@carillon/core/channels';
import { pushStartMs } from '@carillon/core/ids';
import type { Clock } from '@carillon/store/clock';
import { PUSHES_OF_APP_INDEX, UNCLOSED_BATCHES_INDEX } from '@carillon/store/migrate';
import { PARKED_AT } from '@carillon/store/parked-batches';
import type { Suspensions } from '@carillon/store/suspensions';
import type { Collection, Db, Document } from 'mongodb';
import { type BatchSet, COUNT_TIMEOUT_MS, openBatchSets } from './backlog.ts';

/** Maximum index entries read of each channel and kind of batches, the oldest first. */
const MAX_ENTRIES = 20_000;
/** Maximum apps that are looked up one by one: of those with parked batches, and of those that others may hide. */
const MAX_LOOKED_UP = 30;
/** Maximum documents read of each collection for such an app. */
const MAX_DOCUMENTS = 100;
/** Maximum apps returned, those with the most pending batches. */
const MAX_APPS = 1_000;

/** Batches of one app that workers have or could have now, were the app not paused. */
export interface AppBacklog {
  app: string;
  pending: number;
  /** True if `pending` is a lower bound: more entries exist than are read. */
  isAtLeast: boolean;
  /** Age of the oldest pending batch, in milliseconds; 0 without one. */
  oldestMs: number;
}

/** Pending batches of an app, as one query has counted them. */
interface Count {
  app: string;
  pending: number;
  oldest: Date | null;
  isAtLeast: boolean;
}

/**
 * Measures the pending work of each app, from the indexes as far as it has at most 20,000 batches a channel. Batches of
 * paused apps count: an operator must see what waits. Those of suspended accounts do not.
 */
export function createAppBacklog(
  db: Db,
  clock: Clock,
  suspensions: Pick<Suspensions, 'filterSuspended' | 'has'>,
) {
  const { embedded, ready, waiting } = openBatchSets(db);

  /** Counts the pending among the newest pushes of an app, and among some of its other batches. */
  function lookUp(app: string, horizon: Date): Promise<Count[]> {
    const isDue = {
      $or: [{ $lte: ['$work.at', horizon] }, { $eq: ['$work.at', PARKED_AT] }],
    };
    const isReady = { $eq: ['$work.state', 'ready'] };
    const isOpen = { $eq: ['$state', 'open'] };
    const unclosed = { 'work.state': { $in: ['waiting', 'ready'] }, from: { $exists: true } };
    return Promise.all([
      countAmong(
        db.collection('pushes'),
        app,
        [{ $match: { app } }, { $sort: { _id: -1 } }],
        { $and: [isOpen, isReady, isDue] },
        PUSHES_OF_APP_INDEX,
      ),
      countAmong(
        db.collection('batches'),
        app,
        [{ $match: { app, ...unclosed } }],
        isDue,
        UNCLOSED_BATCHES_INDEX,
      ),
    ]);
  }

  return {
    lookUp,
    /**
     * Measures the pending batches of the apps that have most, and of apps that these hide.
     *
     * @param listActive lists the apps that have accepted pushes lately; called only if there are more batches than are
     *   read. The first thirty of them that were not among these are looked up one by one
     * @param limit maximum batches read of each channel and kind
     */
    async measure(
      listActive: () => Promise<readonly string[]>,
      limit = MAX_ENTRIES,
    ): Promise<AppBacklog[]> {
      const now = clock.now();
      const horizon = new Date(now + BATCH_LEASE_MS);
      const counts: Count[] = [];
      // One channel after the other: all at once would take MongoDB from the deliveries.
      for (const channel of CHANNELS) {
        const common = { 'work.channel': channel, ...suspensions.filterSuspended() };
        const due = { ...common, 'work.at': { $lte: horizon } };
        const groups = await Promise.all([
          ...[embedded, ready, waiting].map((set) => group(set, due, limit)),
          ...[embedded, ready].map((set) => countParked(set, common, limit)),
        ]);
        counts.push(...groups.flat());
      }
      if (counts.some(({ isAtLeast }) => isAtLeast)) {
        const seen = new Set(counts.map(({ app }) => app));
        const hidden = (await listActive())
          .filter((app) => !seen.has(app) && !suspensions.has(app))
          .slice(0, MAX_LOOKED_UP);
        counts.push(...(await Promise.all(hidden.map((app) => lookUp(app, horizon)))).flat());
      }
      return addUp(counts, now);
    },
  };
}

/** Counts batches by app. */
async function group(
  { collection, filter, hint }: BatchSet,
  match: Document,
  limit: number,
): Promise<Count[]> {
  const found = await collection
    .aggregate<Omit<Count, 'app' | 'isAtLeast'> & { _id: string }>(
      [
        { $match: { ...match, ...filter } },
        { $sort: { 'work.at': 1 } },
        { $limit: limit },
        { $group: { _id: '$app', pending: { $sum: 1 }, oldest: { $min: '$work.at' } } },
      ],
      { hint, maxTimeMS: COUNT_TIMEOUT_MS },
    )
    .toArray();
  const read = found.reduce((sum, { pending }) => sum + pending, 0);
  return found.map(({ _id, ...count }) => ({ app: _id, ...count, isAtLeast: read >= limit }));
}

/** Counts the parked batches of each app. The age of the oldest is that in its id: the due time of all is the same. */
async function countParked(
  { collection, filter, hint }: BatchSet,
  common: Document,
  limit: number,
): Promise<Count[]> {
  const match = { ...common, ...filter, 'work.at': PARKED_AT };
  const options = { hint, maxTimeMS: COUNT_TIMEOUT_MS };
  const apps = await collection.distinct('app', match, { maxTimeMS: COUNT_TIMEOUT_MS });
  return Promise.all(
    apps.slice(0, MAX_LOOKED_UP).map(async (app: string) => {
      const ofApp = { ...match, app };
      const [pending, first] = await Promise.all([
        collection.countDocuments(ofApp, { ...options, limit }),
        collection.findOne<{ _id: string }>(ofApp, { ...options, projection: { _id: 1 } }),
      ]);
      const oldest = first && new Date(pushStartMs(first._id));
      return { app, pending, oldest, isAtLeast: pending >= limit };
    }),
  );
}

async function countAmong(
  collection: Collection,
  app: string,
  stages: readonly Document[],
  isPending: Document,
  hint: Document,
): Promise<Count> {
  const [found] = await collection
    .aggregate<{ read: number; pending: number; oldest: Date | null }>(
      [
        ...stages,
        { $limit: MAX_DOCUMENTS },
        {
          $group: {
            _id: null,
            read: { $sum: 1 },
            pending: { $sum: { $cond: [isPending, 1, 0] } },
            oldest: { $min: { $cond: [isPending, '$work.at', null] } },
          },
        },
      ],
      { hint, maxTimeMS: COUNT_TIMEOUT_MS },
    )
    .toArray();
  const { read = 0, pending = 0, oldest = null } = found ?? {};
  return { app, pending, oldest, isAtLeast: read >= MAX_DOCUMENTS };
}

function addUp(counts: readonly Count[], now: number): AppBacklog[] {
  const sums = new Map<string, AppBacklog>();
  for (const { app, pending, oldest, isAtLeast } of counts) {
    const sum = sums.get(app) ?? { app, pending: 0, isAtLeast: false, oldestMs: 0 };
    const ageMs = oldest === null ? 0 : Math.max(0, now - oldest.getTime());
    sums.set(app, {
      app,
      pending: sum.pending + pending,
      isAtLeast: sum.isAtLeast || isAtLeast,
      oldestMs: Math.max(sum.oldestMs, ageMs),
    });
  }
  return [...sums.values()]
    .filter(({ pending }) => pending > 0)
    .sort((one, other) => other.pending - one.pending)
    .slice(0, MAX_APPS);
}
