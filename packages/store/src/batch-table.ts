import { createBatcher } from '@carillon/core/batcher';
import { isBatchId, newClaimId, pushIdOfBatch } from '@carillon/core/ids';
import { countOutcomes } from '@carillon/core/outcomes';
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
import {
  type BatchHolder,
  type BatchHolders,
  FAST_WRITE,
  openBatchHolders,
  runPerCollection,
} from './batch-holders.ts';
import { type BulkChange, setPerDocument } from './bulk-set.ts';
import { packUint32s } from './bytes.ts';
import { fromNow } from './clock.ts';
import type { Batch, ProviderErrorEntry } from './documents.ts';
import { createDueBatches } from './due-batches.ts';
import { buildFailureMark, findFailures } from './failure-mark.ts';
import { createHeldBatches } from './held-batches.ts';
import { buildLapsedCount } from './lapsed-claims.ts';
import { NOTIFY_MARK } from './notify-mark.ts';
import { createParkedBatches, PARKED_AT } from './parked-batches.ts';
import { SENDABLE_PUSH_FIELDS, type SendablePush } from './sendable-push.ts';
import type { Suspensions } from './suspensions.ts';

/** A batch that a worker holds until its lease ends. */
export interface ClaimedBatch {
  id: string;
  push: string;
  claim: string;
  work: Batch;
  /** Events of the batch are reported to webhooks. */
  notify?: true;
  /** The push right after the claim, if it holds the batch itself. */
  sendable?: SendablePush;
}

/** The end of a claim. Codes are those of core/outcomes, one for each recipient. */
export interface Settlement {
  id: string;
  claim: string;
  outcomes: Uint8Array;
  /** Milliseconds to each receipt, 0 unknown. */
  latenciesMs: Uint32Array;
  /** Errors that a provider returned for recipients that have failed or are gone. */
  words?: ProviderErrorEntry[];
  /**
   * Recipients that also got the push over MQTT may still acknowledge; ignored if this settlement finishes the push.
   */
  lateReceipts?: boolean;
  /** The push has no other batch and no inbox row: the same write finishes it. */
  finish?: { purgeAt: Date };
  /** Events of the batch are reported to webhooks. */
  notify?: true;
}

/** A batch that was closed, and the receipts that were recorded meanwhile; those of a push that it finished are not read. */
export interface SettledBatch {
  /** As in {@link Batch}: what was set before the batch was closed. */
  got: Record<string, number>;
  sent?: Record<string, number>;
  done?: Record<string, number>;
  refused?: Record<string, number>;
}
/** A settlement and the context of its span, if its push is traced. */
type TracedSettlement = Settlement & { trace?: string };
/**
 * Time for which a settlement waits for others; together they cost MongoDB a fraction. The devices have their pushes by
 * then, and the lease of a claim lasts for seconds.
 */
const SETTLE_GATHER_MS = 50;
/** Number of waiting settlements that are written without a further wait: each holds a slot of its queue. */
const SETTLEMENTS_ENOUGH = 16;
/** Minimum recipients of a settlement that does not wait: it costs MongoDB about as much in a statement of its own. */
const LARGE_SETTLEMENT_RECIPIENTS = 100;

interface ClaimRequest {
  id: string;
  /** The worker's reply stream, for the worker that takes over. */
  reply: string;
  leaseMs: number;
}

/** Claims, progress and settlement of batches, whether they have a document of their own or lie in their push. */
export function createBatchTable(db: Db, suspensions: Suspensions, tracer?: Tracer) {
  const holders = openBatchHolders(db);
  return {
    ...createClaims(holders, suspensions, tracer),
    ...createHeldBatches(holders),
    settle: createSettle(holders, tracer),
    ...createDueBatches(holders, suspensions),
    ...createParkedBatches(holders, suspensions),
  };
}

function createClaims(
  holders: BatchHolders,
  suspensions: Pick<Suspensions, 'filter' | 'listPaused'>,
  tracer?: Tracer,
) {
  const claimBatched = createBatcher<ClaimRequest, ClaimedBatch | undefined>(
    'claim-batch',
    traceBatches(
      tracer,
      'claim batches',
      // Only a batch in its push comes with the push's context.
      (_, claimed) => (claimed instanceof Error ? undefined : claimed?.sendable?.trace),
      (requests) =>
        runPerCollection(requests, async (id, group) => {
          const collection = holders.of(id);
          const [claimed] = await Promise.all([
            claimAll(collection, group, suspensions.filter()),
            parkAll(collection, group, suspensions.listPaused()),
          ]);
          return claimed;
        }),
    ),
    { maxBatchSize: 200 },
  );

  return {
    /**
     * Claims a batch for `leaseMs` if it is due and not claimed. Concurrent claims share round trips. Parks the batch of
     * a paused app instead.
     *
     * @returns undefined if it is claimed or closed, its push isn't open, its account is suspended or its app paused
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
        renewAll(holders.of(id), group, leaseMs),
      );
      return new Set(held.flatMap(({ claim }, index) => (renewed[index] ? [claim] : [])));
    },
  };
}

/**
 * Creates the function that closes a batch with an outcome for each recipient. The function returns the receipts that
 * were recorded meanwhile, also if an earlier call, whose response was lost, has closed the batch. It returns undefined
 * if the claim was lost and nothing was written. Concurrent settlements share one journal sync.
 */
function createSettle(
  holders: BatchHolders,
  tracer?: Tracer,
): (settlement: TracedSettlement) => Promise<SettledBatch | undefined> {
  return createBatcher<TracedSettlement, SettledBatch | undefined>(
    'settle-batch',
    traceBatches(
      tracer,
      'settle batches',
      ({ trace }) => trace,
      (settlements) =>
        runPerCollection(settlements, (id, group) => settleAll(holders.of(id), group)),
    ),
    {
      maxBatchSize: 200,
      gatherMs: SETTLE_GATHER_MS,
      enough: SETTLEMENTS_ENOUGH,
      isUrgent: ({ outcomes }) => outcomes.length >= LARGE_SETTLEMENT_RECIPIENTS,
    },
  );
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

/** Parks those of the batches that are due and of these apps (store/parked-batches). A lapsed claim stays in force. */
async function parkAll(
  collection: Collection<BatchHolder>,
  requests: readonly ClaimRequest[],
  pausedApps: string[],
): Promise<void> {
  if (pausedApps.length === 0) return;
  const filter = {
    ...buildClaimFilter(requests.map(({ id }) => id)),
    app: { $in: pausedApps },
  } as Filter<BatchHolder>;
  await collection.updateMany(filter, { $set: { 'work.at': PARKED_AT } }, FAST_WRITE);
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
  const settled = await Promise.all(groups.map((group) => settleGroup(collection, group)));
  const byClaim = new Map(settled.flatMap((group) => [...group]));
  // A push that was deleted or has expired meanwhile is not finished, but the outcomes of its batch count.
  const left = settlements.flatMap(({ finish, ...settlement }) =>
    finish === undefined || byClaim.has(settlement.claim) ? [] : [settlement],
  );
  for (const [claim, batch] of await settleGroup(collection, left)) byClaim.set(claim, batch);
  return settlements.map(({ claim }) => byClaim.get(claim));
}

/** Settles batches of one collection, and returns those that were settled by their claim. All finish their push, or none does. */
async function settleGroup(
  collection: Collection<BatchHolder>,
  settlements: readonly Settlement[],
): Promise<Map<string, SettledBatch>> {
  const [first] = settlements;
  if (first === undefined) return new Map();
  const change = buildSettlementUpdate(settlements);
  try {
    if (first.finish === undefined) {
      const settled = toSettled(await updateAndFind(collection, change, SETTLED_FIELDS));
      if (settled.size > 0) return settled;
    } else {
      // A push that it finishes has no inbox row, so receipts are not read: the number is enough if all took effect.
      const matched = await updateAll(collection, change);
      if (matched === settlements.length)
        return new Map(settlements.map(({ claim }) => [claim, toSettledBatch({})]));
    }
  } catch (error) {
    if (settlements.length === 1) throw error;
    // After a failover the driver retries an update of one document, not of many. Some updates may have taken effect.
    const updates = settlements.map((one) => {
      const { filter, update } = buildSettlementUpdate([one]);
      return { updateOne: { filter, update } };
    });
    await collection.bulkWrite(updates as AnyBulkWriteOperation<BatchHolder>[], { ordered: false });
  }
  // A batch that did not match may have been closed by an earlier call of the same claim, whose response was lost.
  return toSettled(await findAll(collection, change.ids, SETTLED_FIELDS));
}

const SETTLED_FIELDS = {
  'work.claim': 1,
  'work.got': 1,
  'work.sent': 1,
  'work.done': 1,
  'work.refused': 1,
  'work.state': 1,
} as const;

function toSettledBatch({ got = {}, sent, done, refused }: Partial<SettledBatch>): SettledBatch {
  return { got, ...(sent && { sent }), ...(done && { done }), ...(refused && { refused }) };
}

/** Returns the batches of these documents that are closed, by their claim. */
function toSettled(found: readonly WithId<BatchHolder>[]): Map<string, SettledBatch> {
  return new Map(
    found.flatMap(({ work }) =>
      work?.claim !== undefined && work.state === 'closed'
        ? [[work.claim, toSettledBatch(work)] as const]
        : [],
    ),
  );
}

/** Builds the update that closes batches while their claims hold. All of them finish their push, or none does. */
export function buildSettlementUpdate(settlements: readonly Settlement[]): BulkChange {
  const ids = settlements.map(({ id }) => id);
  const claims = settlements.map(({ claim }) => claim);
  const finishesPush = settlements[0]?.finish !== undefined;
  const allCounts = settlements.map(({ outcomes }) => countOutcomes(outcomes));
  const hasLateReceipts =
    !finishesPush && settlements.some(({ lateReceipts }) => lateReceipts === true);
  const hasWords = settlements.some(({ words = [] }) => words.length > 0);
  const failures = settlements.map(({ id, outcomes }, index) =>
    allCounts[index]?.failed === undefined ? 0 : findFailures(id, outcomes),
  );
  const hasFailures = failures.some((mask) => mask !== 0);
  const isReported = settlements.some(({ notify }) => notify === true);
  const filter = {
    _id: { $in: ids },
    'work.claim': { $in: claims },
    'work.state': 'ready',
    ...(finishesPush && { state: 'open' }),
  };
  return {
    ids,
    filter,
    // Keyed by the claim: this process may hold two claims on one batch, of which the older has lapsed.
    update: setPerDocument('$work.claim', claims, (pick) => {
      const counts = pick(allCounts);
      return {
        'work.state': 'closed',
        'work.outcomes': pick(settlements.map(({ outcomes }) => new Binary(outcomes))),
        'work.counts': counts,
        'work.ms': pick(settlements.map(({ latenciesMs }) => new Binary(packUint32s(latenciesMs)))),
        ...(hasWords && { 'work.words': pick(settlements.map(({ words = [] }) => words)) }),
        ...(hasFailures && buildFailureMark(pick(failures))),
        ...(hasLateReceipts && {
          'work.lateReceipts': pick(settlements.map(({ lateReceipts = false }) => lateReceipts)),
        }),
        'work.before': '$$REMOVE',
        'work.closedAt': '$$NOW',
        ...(isReported && { notify: NOTIFY_MARK }),
        ...(finishesPush && {
          state: 'finished',
          purgeAt: pick(settlements.map(({ finish }) => finish?.purgeAt)),
          counts,
          finishedAt: '$$NOW',
        }),
      };
    }),
  };
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
  const { matchedCount } = await collection.updateMany(documentFilter, update, options);
  return matchedCount === 0 ? [] : findAll(collection, ids, projection);
}

/** Updates documents, and returns how many matched. */
async function updateAll(
  collection: Collection<BatchHolder>,
  { ids, filter, update }: BulkChange,
): Promise<number> {
  const documentFilter = filter as Filter<BatchHolder>;
  const { matchedCount } = await (ids.length === 1
    ? collection.updateOne(documentFilter, update)
    : collection.updateMany(documentFilter, update));
  return matchedCount;
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

/** Matches batches that are due by MongoDB's clock, batches in a push only while it is open. All ids are of one collection. */
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
