import { createGroup } from '@carillon/core/group';
import { isBatchId, newClaimId, pushOfWork } from '@carillon/core/ids';
import { countOutcomes } from '@carillon/core/outcomes';
import {
  type AnyBulkWriteOperation,
  Binary,
  type BulkWriteOptions,
  type Collection,
  type Db,
  type Document,
  type Filter,
  type WithId,
} from 'mongodb';
import { packNumbers } from './bytes.ts';
import { fromNow } from './clock.ts';
import type { BatchDocument, PushDocument, Work } from './documents.ts';
import { bulkErrors } from './inserting.ts';
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
type Update = AnyBulkWriteOperation<Holder>;

interface OneUpdate {
  filter: Document;
  update: Document | Document[];
}

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
  const claims = wanted.map(() => newClaimId());
  const updates = wanted.map(({ id, reply, leaseMs }, index) => ({
    filter: claimable(id),
    update: claimed(claims[index] ?? '', reply, leaseMs),
  }));
  // A batch has none of the push's fields; its push is read for itself.
  const projection = { ...SENDING_VIEW, work: 1 } as const;
  const holders = byClaim(await updateAndFind(holder, wanted, updates, projection, QUICK));
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
  const projection = { 'work.claim': 1, 'work.got': 1, 'work.state': 1 } as const;
  const updates = settlements.map((settlement) => settled(settlement));
  const holders = byClaim(await updateAndFind(holder, settlements, updates, projection));
  return settlements.map(({ claim }) => {
    const work = holders.get(claim)?.work;
    return work?.state === 'closed' ? { got: work.got ?? {} } : undefined;
  });
}

/** Updates some documents and reads them afterwards: a lone one in one round trip, a crowd in two. */
async function updateAndFind(
  holder: Collection<Holder>,
  items: readonly { id: string }[],
  updates: readonly OneUpdate[],
  projection: Readonly<Record<string, 1>>,
  options: Pick<BulkWriteOptions, 'writeConcern'> = {},
): Promise<WithId<Holder>[]> {
  const [only] = updates;
  if (only !== undefined && updates.length === 1) {
    const after = { ...options, projection, returnDocument: 'after' } as const;
    const found = await holder.findOneAndUpdate(only.filter as Filter<Holder>, only.update, after);
    return found === null ? [] : [found];
  }
  const operations = updates.map((updateOne) => ({ updateOne })) as Update[];
  for (const { error } of (await bulkErrors(holder, operations, options)).values()) throw error;
  return holder
    .find({ _id: { $in: items.map((one) => one.id) } }, { projection, batchSize: items.length + 1 })
    .toArray();
}

function byClaim(found: readonly WithId<Holder>[]): Map<string, WithId<Holder>> {
  return new Map(
    found.flatMap((one) => (one.work?.claim === undefined ? [] : [[one.work.claim, one]])),
  );
}

/** Due and free by MongoDB's clock; a push's own work only while the push is open. */
function claimable(id: string): Record<string, unknown> {
  return {
    _id: id,
    'work.state': 'ready',
    ...(!isBatchId(id) && { state: 'open' }),
    $expr: { $lte: ['$work.at', '$$NOW'] },
  };
}

function claimed(claim: string, reply: string, leaseMs: number): Record<string, unknown>[] {
  const unheld = { $eq: [{ $type: '$work.claim' }, 'missing'] };
  const before = { claim: '$work.claim', reply: '$work.reply' };
  return [
    {
      $set: {
        'work.before': { $cond: [unheld, '$$REMOVE', before] },
        'work.claim': { $literal: claim },
        'work.reply': { $literal: reply },
        'work.at': fromNow(leaseMs),
        'work.tries': { $add: ['$work.tries', 1] },
      },
    },
  ];
}

function settled({ id, claim, outcomes, ms, finish }: Settlement): OneUpdate {
  const counts = countOutcomes(outcomes);
  return {
    filter: {
      _id: id,
      'work.claim': claim,
      'work.state': 'ready',
      ...(finish && { state: 'open' }),
    },
    update: {
      $set: {
        'work.state': 'closed',
        'work.outcomes': new Binary(outcomes),
        'work.counts': counts,
        'work.ms': new Binary(packNumbers(ms)),
        ...(finish && { state: 'finished', purgeAt: finish.purgeAt, counts }),
      },
      $unset: { 'work.before': true },
      $currentDate: { 'work.closedAt': true, ...(finish && { finishedAt: true }) },
    },
  };
}
