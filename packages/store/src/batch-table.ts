import { toBitWords } from '@carillon/core/batch';
import { createBatcher } from '@carillon/core/batcher';
import { CHANNELS, type Channel } from '@carillon/core/channels';
import { isBatchId, newClaimId, pushIdOfBatch } from '@carillon/core/ids';
import { type Tracer, traceBatches } from '@carillon/core/tracing';
import {
  type AnyBulkWriteOperation,
  Binary,
  type Collection,
  type Db,
  type Document,
  type Filter,
  type WithId,
  type WriteConcernSettings,
} from 'mongodb';
import { type BulkChange, setPerDocument } from './bulk-set.ts';
import { fromNow } from './clock.ts';
import type {
  Batch,
  BatchDocument,
  DeferredEntry,
  NotifyEntry,
  PushDocument,
} from './documents.ts';
import { buildFailureMark, findFailures } from './failure-mark.ts';
import { buildSettlementUpdate, type Settlement } from './final-outcomes.ts';
import { buildLapsedCount } from './lapsed-claims.ts';
import { NOTIFY_MARK } from './notify-mark.ts';
import { SENDABLE_PUSH_FIELDS, type SendablePush } from './sendable-push.ts';
import type { Suspensions } from './suspensions.ts';

/** A batch that a worker holds until its lease ends. */
export interface ClaimedBatch {
  id: string;
  push: string;
  claim: string;
  work: Batch;
  /** Webhooks are told of the batch. */
  notify?: true;
  /** The push right after the claim, if it holds the batch itself. */
  sendable?: SendablePush;
}

/** Progress of a batch that a worker still holds. */
export interface UnfinishedBatch extends Pick<Settlement, 'id' | 'claim' | 'outcomes' | 'words'> {
  /** Recipients to retry, and when at the earliest. */
  deferred: DeferredEntry[];
  /** Lapsed claims of a batch that is processed alone; for all others the save resets their number. */
  lapsed?: number;
}

/** A batch that was closed, and the receipts that were recorded meanwhile. */
type SettledBatch = { got: Record<string, number> };
/** A settlement and the context of its span, if its push is traced. */
type TracedSettlement = Settlement & { trace?: string };
type ClaimRequest = { id: string; reply: string; leaseMs: number };
type BatchHolder = Partial<SendablePush> & { _id: string; work?: Batch; notify?: NotifyEntry[] };

/** A lost claim or lease costs a second try, not a push, so these writes do not wait for the journal. */
const FAST_WRITE = { writeConcern: { w: 1, journal: false } } as const;

/** Claims, progress and settlement of batches, whether they have a document of their own or lie in their push. */
export function createBatchTable(
  db: Db,
  suspensions: Pick<Suspensions, 'filter'>,
  tracer?: Tracer,
) {
  const pushes = db.collection<PushDocument>('pushes') as unknown as Collection<BatchHolder>;
  const batches = db.collection<BatchDocument>('batches') as unknown as Collection<BatchHolder>;
  const collectionFor = (id: string): Collection<BatchHolder> => (isBatchId(id) ? batches : pushes);

  const perCollection =
    <T extends { id: string }, R>(
      run: (collection: Collection<BatchHolder>, group: T[]) => Promise<R[]>,
    ) =>
    (items: T[]) =>
      runPerCollection(items, (id, group) => run(collectionFor(id), group));
  const claimBatched = createBatcher<ClaimRequest, ClaimedBatch | undefined>(
    'claim-batch',
    traceBatches(
      tracer,
      'claim batches',
      // Only a batch in its push comes with the push's context.
      (_, claimed) => (claimed instanceof Error ? undefined : claimed?.sendable?.trace),
      perCollection((collection, requests) => claimAll(collection, requests, suspensions.filter())),
    ),
    { maxBatchSize: 200 },
  );
  const settleBatched = createBatcher<TracedSettlement, SettledBatch | undefined>(
    'settle-batch',
    traceBatches(tracer, 'settle batches', ({ trace }) => trace, perCollection(settleAll)),
    { maxBatchSize: 200 },
  );

  /** Reads the batches of open pushes that are due and not claimed, the oldest first of each collection. */
  async function findOldestDue(
    limit: number,
    projection: Record<string, 1>,
    channels: readonly Channel[] = CHANNELS,
  ): Promise<BatchHolder[]> {
    const filter = {
      ...suspensions.filter(),
      'work.state': 'ready' as const,
      // The index begins with the channel. Batches of a newer release's channel are left to a scheduler of that release.
      'work.channel': { $in: channels },
      $expr: { $lte: ['$work.at', '$$NOW'] },
    };
    const results = await Promise.all(
      [
        { collection: pushes, filter: { ...filter, state: 'open' as const } },
        { collection: batches, filter },
      ].map(({ collection, filter: dueFilter }) =>
        collection.find(dueFilter, { projection }).sort({ 'work.at': 1 }).limit(limit).toArray(),
      ),
    );
    return results.flat();
  }

  return {
    /**
     * Claims a batch for `leaseMs` if it is due and not claimed. Undefined: it is claimed, closed, its push isn't open,
     * or its account is suspended. Concurrent claims share round trips.
     *
     * @param reply the worker's reply stream, for the worker that takes over
     */
    claim: (id: string, reply: string, leaseMs: number): Promise<ClaimedBatch | undefined> =>
      claimBatched({ id, reply, leaseMs }),

    /**
     * Renews the leases of a worker's claims with one update for each collection. If the update does not match all of
     * them, the claims are read afterwards.
     *
     * @returns the claims that were renewed; all others are lost
     */
    async renew(
      held: readonly { id: string; claim: string }[],
      leaseMs: number,
    ): Promise<Set<string>> {
      const renewed = await runPerCollection([...held], (id, group) =>
        renewAll(collectionFor(id), group, leaseMs),
      );
      return new Set(held.flatMap(({ claim }, index) => (renewed[index] ? [claim] : [])));
    },

    /**
     * Closes a batch with an outcome for each recipient. Undefined: the claim was lost and nothing was written. Else
     * returns the receipts that were recorded meanwhile. Concurrent settlements share one journal sync.
     */
    settle: (settlement: TracedSettlement): Promise<SettledBatch | undefined> =>
      settleBatched(settlement),

    /**
     * Releases the claim on an unfinished batch and records the receipts that the worker has. The batch is due again
     * after `delayMs`, or at once if {@link retryNow} was called meanwhile. Does nothing if the claim was lost.
     *
     * @param staysSuspected keeps the number of lapsed claims, which a release resets otherwise
     */
    async releaseClaim(
      { id, claim, notify }: Pick<ClaimedBatch, 'id' | 'claim' | 'notify'>,
      delayMs: number,
      received: readonly number[],
      staysSuspected = false,
    ): Promise<void> {
      const claimFilter = { _id: id, 'work.claim': claim, 'work.state': 'ready' as const };
      if (received.length > 0) {
        const words = [...toBitWords(received)].map(([word, bits]) => [
          `work.got.${word}`,
          { or: bits },
        ]);
        await collectionFor(id).updateOne(claimFilter, { $bit: Object.fromEntries(words) });
      }
      await collectionFor(id).updateOne(claimFilter, [
        {
          $set: {
            'work.at': { $cond: ['$work.hurried', '$$NOW', fromNow(delayMs)] },
            // Webhooks are told of the outcomes so far: the batch may wait for its retry for hours.
            ...(notify && { notify: NOTIFY_MARK }),
          },
        },
        {
          $unset: [
            ...['work.claim', 'work.reply', 'work.before', 'work.hurried'],
            ...(staysSuspected ? [] : ['work.lapsed']),
          ],
        },
      ]);
    },

    /**
     * Marks a claim as that of a worker that processes nothing else from now on. If it lapses, it counts
     * (store/lapsed-claims). False: the claim was lost.
     */
    async markAlone({ id, claim }: Pick<ClaimedBatch, 'id' | 'claim'>): Promise<boolean> {
      const { matchedCount } = await collectionFor(id).updateOne(
        { _id: id, 'work.claim': claim, 'work.state': 'ready' },
        { $set: { 'work.alone': claim } },
        FAST_WRITE,
      );
      return matchedCount === 1;
    },

    /**
     * Saves the outcomes so far of a batch that is still being worked on, so that a worker that takes over repeats few.
     * False: the claim was lost and nothing was written.
     */
    async saveOutcomes({
      id,
      claim,
      outcomes,
      deferred,
      words = [],
      lapsed = -1,
    }: UnfinishedBatch): Promise<boolean> {
      const progress = {
        'work.outcomes': new Binary(outcomes),
        'work.later': deferred,
        'work.lapsed': lapsed,
        ...(words.length > 0 && { 'work.words': words }),
      };
      const { matchedCount } = await collectionFor(id).updateOne(
        { _id: id, 'work.claim': claim, 'work.state': 'ready' },
        buildProgressUpdate(progress, findFailures(id, outcomes)),
      );
      return matchedCount === 1;
    },

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
     * Finds batches to enqueue: their job was lost, their lease has ended, or their retry is due.
     *
     * @param limit of each collection; if one has as many, of each channel in it, so that a channel whose workers don't keep
     *   up hides no batch of another
     */
    async findDue(limit: number): Promise<{ id: string; channel: Batch['channel'] }[]> {
      const projection = { 'work.channel': 1 } as const;
      const oldest = await findOldestDue(limit, projection);
      const findOf = (channel: Channel) => findOldestDue(limit, projection, [channel]);
      const found =
        oldest.length < limit ? oldest : (await Promise.all(CHANNELS.map(findOf))).flat();
      return found.flatMap(({ _id, work }) => (work ? [{ id: _id, channel: work.channel }] : []));
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

/** Builds the update that saves progress; one with failed recipients also lists the batch among the failures. */
function buildProgressUpdate(progress: Document, failures: number): Document {
  if (failures === 0) return { $set: progress };
  const literals = Object.entries(progress).map(([name, value]) => [name, { $literal: value }]);
  return [
    { $set: { ...Object.fromEntries(literals), ...buildFailureMark({ $literal: failures }) } },
  ];
}

/** Runs a group once per collection, and returns the results in the order of the items. */
async function runPerCollection<T extends { id: string }, R>(
  items: T[],
  run: (firstId: string, group: T[]) => Promise<R[]>,
): Promise<R[]> {
  const ordered = new Array<R>(items.length);
  await Promise.all(
    [true, false].map(async (isBatch) => {
      const indexes = [...items.keys()].filter(
        (itemIndex) => isBatchId(items[itemIndex]?.id ?? '') === isBatch,
      );
      const group = indexes.map((itemIndex) => items[itemIndex] as T);
      if (group[0] === undefined) return;
      const results = await run(group[0].id, group);
      for (const [index, itemIndex] of indexes.entries()) ordered[itemIndex] = results[index] as R;
    }),
  );
  return ordered;
}

async function claimAll(
  collection: Collection<BatchHolder>,
  requests: ClaimRequest[],
  suspensionFilter: Document,
): Promise<(ClaimedBatch | undefined)[]> {
  const ids = requests.map(({ id }) => id);
  const claims = requests.map(() => newClaimId());
  const claimChange = {
    ids,
    filter: { ...buildClaimFilter(ids), ...suspensionFilter },
    update: buildClaimUpdate(requests, claims),
  };
  // A batch document has none of the push's fields; the worker reads its push separately.
  const projection = { ...SENDABLE_PUSH_FIELDS, work: 1, 'notify.w': 1 } as const;
  const documentsByClaim = groupByClaim(
    await updateAndFind(collection, claimChange, projection, FAST_WRITE),
  );
  return requests.map(({ id }, index) => {
    const claim = claims[index] ?? '';
    const { work, notify, ...sendable } = documentsByClaim.get(claim) ?? {};
    if (work === undefined) return undefined;
    const isReported = notify !== undefined && { notify: true as const };
    const claimedBatch = { id, push: pushIdOfBatch(id), claim, work, ...isReported };
    return isBatchId(id) ? claimedBatch : { ...claimedBatch, sendable: sendable as SendablePush };
  });
}

/** Renews claims of one collection; returns whether each was renewed. */
async function renewAll(
  collection: Collection<BatchHolder>,
  held: readonly { id: string; claim: string }[],
  leaseMs: number,
): Promise<boolean[]> {
  const ids = held.map(({ id }) => id);
  const filter = {
    _id: { $in: ids },
    'work.claim': { $in: held.map(({ claim }) => claim) },
    'work.state': 'ready' as const,
  };
  const update = [{ $set: { 'work.at': fromNow(leaseMs) } }];
  const { matchedCount } = await collection.updateMany(filter, update, FAST_WRITE);
  if (matchedCount === held.length) return held.map(() => true);
  // Claim ids are unique: a claim that is stored now was stored when the leases were renewed.
  const documentsByClaim = groupByClaim(
    await findAll(collection, ids, { 'work.claim': 1, 'work.state': 1 }),
  );
  return held.map(({ claim }) => documentsByClaim.get(claim)?.work?.state === 'ready');
}

async function settleAll(
  collection: Collection<BatchHolder>,
  settlements: Settlement[],
): Promise<(SettledBatch | undefined)[]> {
  const groups = [true, false].map((finishesPush) =>
    settlements.filter(({ finish }) => (finish !== undefined) === finishesPush),
  );
  const found = await Promise.all(groups.map((group) => settleGroup(collection, group)));
  const documentsByClaim = groupByClaim(found.flat());
  return settlements.map(({ claim }) => {
    const work = documentsByClaim.get(claim)?.work;
    return work?.state === 'closed' ? { got: work.got ?? {} } : undefined;
  });
}

/** Settles batches of one collection. All of them finish their push, or none does. */
async function settleGroup(
  collection: Collection<BatchHolder>,
  settlements: readonly Settlement[],
): Promise<WithId<BatchHolder>[]> {
  if (settlements.length === 0) return [];
  const projection = { 'work.claim': 1, 'work.got': 1, 'work.state': 1 } as const;
  try {
    return await updateAndFind(collection, buildSettlementUpdate(settlements), projection);
  } catch (error) {
    if (settlements.length === 1) throw error;
    // After a failover the driver retries an update of one document, not of many. Some updates may have taken effect.
    const updates = settlements.map((one) => {
      const { filter, update } = buildSettlementUpdate([one]);
      return { updateOne: { filter, update } };
    });
    await collection.bulkWrite(updates as AnyBulkWriteOperation<BatchHolder>[], { ordered: false });
    const ids = settlements.map(({ id }) => id);
    return findAll(collection, ids, projection);
  }
}

/** Updates documents and reads them afterwards: a single one in one round trip, several in two. */
async function updateAndFind(
  collection: Collection<BatchHolder>,
  { ids, filter, update }: BulkChange,
  projection: Readonly<Record<string, 1>>,
  options: { writeConcern?: WriteConcernSettings } = {},
): Promise<WithId<BatchHolder>[]> {
  const documentFilter = filter as Filter<BatchHolder>;
  if (ids.length === 1) {
    const after = { ...options, projection, returnDocument: 'after' } as const;
    const found = await collection.findOneAndUpdate(documentFilter, update, after);
    return found === null ? [] : [found];
  }
  await collection.updateMany(documentFilter, update, options);
  return findAll(collection, ids, projection);
}

function findAll(
  collection: Collection<BatchHolder>,
  ids: readonly string[],
  projection: Readonly<Record<string, 1>>,
): Promise<WithId<BatchHolder>[]> {
  return collection
    .find({ _id: { $in: [...ids] } }, { projection, batchSize: ids.length + 1 })
    .toArray();
}

function groupByClaim(found: readonly WithId<BatchHolder>[]): Map<string, WithId<BatchHolder>> {
  return new Map(
    found.flatMap((one) => (one.work?.claim === undefined ? [] : [[one.work.claim, one]])),
  );
}

/**
 * Matches batches that are due by MongoDB's clock; those in a push only while it is open. All ids are of one
 * collection.
 */
function buildClaimFilter(ids: readonly string[]): Document {
  return {
    _id: { $in: ids },
    'work.state': 'ready',
    ...(!isBatchId(ids[0] ?? '') && { state: 'open' }),
    $expr: { $lte: ['$work.at', '$$NOW'] },
  };
}

function buildClaimUpdate(
  requests: readonly ClaimRequest[],
  claims: readonly string[],
): Document[] {
  const isUnclaimed = { $eq: [{ $type: '$work.claim' }, 'missing'] };
  const previousClaim = { claim: '$work.claim', reply: '$work.reply' };
  const ids = requests.map(({ id }) => id);
  return setPerDocument('$_id', ids, (pick) => ({
    'work.before': { $cond: [isUnclaimed, '$$REMOVE', previousClaim] },
    'work.claim': pick(claims),
    'work.reply': pick(requests.map(({ reply }) => reply)),
    'work.at': fromNow(pick(requests.map(({ leaseMs }) => leaseMs))),
    'work.tries': { $add: ['$work.tries', 1] },
    'work.lapsed': buildLapsedCount(isUnclaimed),
  }));
}
