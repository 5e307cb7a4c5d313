import { createGroup } from '@carillon/core/group';
import { isBatchId, newClaimId, pushOfWork } from '@carillon/core/ids';
import { countOutcomes } from '@carillon/core/outcomes';
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
import { packNumbers } from './bytes.ts';
import { fromNow } from './clock.ts';
import type { BatchDocument, PushDocument, Work } from './documents.ts';
import { eachItsOwn } from './each-its-own.ts';
import { SENDING_VIEW, type SendingView } from './sending-view.ts';

/** Work that a worker holds until its lease ends. */
export interface ClaimedWork {
  id: string;
  push: string;
  claim: string;
  work: Work;
  /** The push as it was a moment after the claim, when it holds the work itself. */
  view?: SendingView;
}

/** How a claim ends. Codes are those of core/outcomes, one for each recipient. */
export interface Settlement {
  id: string;
  claim: string;
  outcomes: Uint8Array;
  /** Milliseconds to each receipt, 0 unknown. */
  ms: Uint32Array;
  /** The push has no other work and nothing in an inbox: the same write finishes it. */
  finish?: { purgeAt: Date };
}

type Wanted = { id: string; reply: string; leaseMs: number };
type Holder = Partial<SendingView> & { _id: string; work?: Work };

/** A claim or lease that is lost costs a second try, not a push, so it doesn't wait for the journal. */
const QUICK = { writeConcern: { w: 1, journal: false } } as const;

/** The claims on batches and on pushes that hold their only batch: one code for both. */
export function createWorkTable(db: Db) {
  const pushes = db.collection<PushDocument>('pushes') as unknown as Collection<Holder>;
  const batches = db.collection<BatchDocument>('batches') as unknown as Collection<Holder>;
  const holderOf = (id: string): Collection<Holder> => (isBatchId(id) ? batches : pushes);

  const grouped = <T extends { id: string }, R>(
    run: (holder: Collection<Holder>, some: T[]) => Promise<R[]>,
  ) =>
    createGroup<T, R>((items) => byHolder(items, (id, some) => run(holderOf(id), some)), {
      maxItems: 200,
    });
  const claimGrouped = grouped(claimSome);
  const settleGrouped = grouped(settleSome);

  return {
    /**
     * Takes work for `leaseMs` if it is due and nobody holds it. Undefined: somebody does, it is closed, or its
     * push isn't open. Lone claims share round trips.
     *
     * @param reply the worker's reply stream, for whoever takes over
     */
    claim: (id: string, reply: string, leaseMs: number): Promise<ClaimedWork | undefined> =>
      claimGrouped({ id, reply, leaseMs }),

    /** Renews the leases of a worker's claims, with one update for each collection. */
    async renew(held: readonly { id: string; claim: string }[], leaseMs: number): Promise<void> {
      await byHolder([...held], async (id, some) => {
        const filter = {
          _id: { $in: some.map((one) => one.id) },
          'work.claim': { $in: some.map((one) => one.claim) },
          'work.state': 'ready' as const,
        };
        await holderOf(id).updateMany(filter, [{ $set: { 'work.at': fromNow(leaseMs) } }], QUICK);
        return some;
      });
    },

    /**
     * Closes work with an outcome for each recipient. Undefined: the claim was lost and nothing was written.
     * Else the receipts that came by other ways meanwhile. Lone settlements share syncs.
     */
    settle: (settlement: Settlement): Promise<{ got: Record<string, number> } | undefined> =>
      settleGrouped(settlement),
  };
}

/** Runs a group by the kind of its works' holders, and puts the answers in order again. */
async function byHolder<T extends { id: string }, R>(
  items: T[],
  run: (firstId: string, some: T[]) => Promise<R[]>,
): Promise<R[]> {
  const answers = new Array<R>(items.length);
  await Promise.all(
    [true, false].map(async (kind) => {
      const places = [...items.keys()].filter(
        (place) => isBatchId(items[place]?.id ?? '') === kind,
      );
      const some = places.map((place) => items[place] as T);
      if (some[0] === undefined) return;
      const results = await run(some[0].id, some);
      for (const [index, place] of places.entries()) answers[place] = results[index] as R;
    }),
  );
  return answers;
}

async function claimSome(
  holder: Collection<Holder>,
  wanted: Wanted[],
): Promise<(ClaimedWork | undefined)[]> {
  const ids = wanted.map(({ id }) => id);
  const claims = wanted.map(() => newClaimId());
  const change = { ids, filter: claimable(ids), update: claimed(wanted, claims) };
  // A batch has none of the push's fields; its push is read for itself.
  const projection = { ...SENDING_VIEW, work: 1 } as const;
  const holders = byClaim(await updateAndFind(holder, change, projection, QUICK));
  return wanted.map(({ id }, index) => {
    const claim = claims[index] ?? '';
    const { work, ...view } = holders.get(claim) ?? {};
    if (work === undefined) return undefined;
    const claimedWork = { id, push: pushOfWork(id), claim, work };
    return isBatchId(id) ? claimedWork : { ...claimedWork, view: view as SendingView };
  });
}

async function settleSome(
  holder: Collection<Holder>,
  settlements: Settlement[],
): Promise<({ got: Record<string, number> } | undefined)[]> {
  const alike = [true, false].map((isEnd) =>
    settlements.filter(({ finish }) => (finish !== undefined) === isEnd),
  );
  const found = await Promise.all(alike.map((some) => settleAlike(holder, some)));
  const holders = byClaim(found.flat());
  return settlements.map(({ claim }) => {
    const work = holders.get(claim)?.work;
    return work?.state === 'closed' ? { got: work.got ?? {} } : undefined;
  });
}

/** Settles some of which all finish their push, or none. */
async function settleAlike(
  holder: Collection<Holder>,
  settlements: readonly Settlement[],
): Promise<WithId<Holder>[]> {
  if (settlements.length === 0) return [];
  const projection = { 'work.claim': 1, 'work.got': 1, 'work.state': 1 } as const;
  try {
    return await updateAndFind(holder, settled(settlements), projection);
  } catch (error) {
    if (settlements.length === 1) throw error;
    // After a failover the driver repeats a change of one document, not one of many. Some may have taken effect.
    const updates = settlements.map((one) => {
      const { filter, update } = settled([one]);
      return { updateOne: { filter, update } };
    });
    await holder.bulkWrite(updates as AnyBulkWriteOperation<Holder>[], { ordered: false });
    const ids = settlements.map(({ id }) => id);
    return findAll(holder, ids, projection);
  }
}

/** A change of some documents, and which they may be. */
interface Change {
  ids: readonly string[];
  filter: Document;
  update: Document[];
}

/** Changes some documents and reads them afterwards: a lone one in one round trip, a crowd in two. */
async function updateAndFind(
  holder: Collection<Holder>,
  { ids, filter, update }: Change,
  projection: Readonly<Record<string, 1>>,
  options: { writeConcern?: WriteConcernSettings } = {},
): Promise<WithId<Holder>[]> {
  const which = filter as Filter<Holder>;
  if (ids.length === 1) {
    const after = { ...options, projection, returnDocument: 'after' } as const;
    const found = await holder.findOneAndUpdate(which, update, after);
    return found === null ? [] : [found];
  }
  await holder.updateMany(which, update, options);
  return findAll(holder, ids, projection);
}

function findAll(
  holder: Collection<Holder>,
  ids: readonly string[],
  projection: Readonly<Record<string, 1>>,
): Promise<WithId<Holder>[]> {
  return holder
    .find({ _id: { $in: [...ids] } }, { projection, batchSize: ids.length + 1 })
    .toArray();
}

function byClaim(found: readonly WithId<Holder>[]): Map<string, WithId<Holder>> {
  return new Map(
    found.flatMap((one) => (one.work?.claim === undefined ? [] : [[one.work.claim, one]])),
  );
}

/** Due and free by MongoDB's clock; pushes' own work only while they are open. The ids are all of one kind. */
function claimable(ids: readonly string[]): Document {
  return {
    _id: { $in: ids },
    'work.state': 'ready',
    ...(!isBatchId(ids[0] ?? '') && { state: 'open' }),
    $expr: { $lte: ['$work.at', '$$NOW'] },
  };
}

function claimed(wanted: readonly Wanted[], claims: readonly string[]): Document[] {
  const unheld = { $eq: [{ $type: '$work.claim' }, 'missing'] };
  const before = { claim: '$work.claim', reply: '$work.reply' };
  const ids = wanted.map(({ id }) => id);
  return eachItsOwn('$_id', ids, (own) => ({
    'work.before': { $cond: [unheld, '$$REMOVE', before] },
    'work.claim': own(claims),
    'work.reply': own(wanted.map(({ reply }) => reply)),
    'work.at': fromNow(own(wanted.map(({ leaseMs }) => leaseMs))),
    'work.tries': { $add: ['$work.tries', 1] },
  }));
}

function settled(settlements: readonly Settlement[]): Change {
  const ids = settlements.map(({ id }) => id);
  const claims = settlements.map(({ claim }) => claim);
  const isEnd = settlements[0]?.finish !== undefined;
  const allCounts = settlements.map(({ outcomes }) => countOutcomes(outcomes));
  return {
    ids,
    filter: {
      _id: { $in: ids },
      'work.claim': { $in: claims },
      'work.state': 'ready',
      ...(isEnd && { state: 'open' }),
    },
    // By the claim: this process may hold two on the same work, of which the older has lapsed.
    update: eachItsOwn('$work.claim', claims, (own) => {
      const counts = own(allCounts);
      return {
        'work.state': 'closed',
        'work.outcomes': own(settlements.map(({ outcomes }) => new Binary(outcomes))),
        'work.counts': counts,
        'work.ms': own(settlements.map(({ ms }) => new Binary(packNumbers(ms)))),
        'work.before': '$$REMOVE',
        'work.closedAt': '$$NOW',
        ...(isEnd && {
          state: 'finished',
          purgeAt: own(settlements.map(({ finish }) => finish?.purgeAt)),
          counts,
          finishedAt: '$$NOW',
        }),
      };
    }),
  };
}
