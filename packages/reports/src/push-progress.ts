import type { OutcomeCounts } from '@carillon/core/outcomes';
import type { BatchDocument, InboxDocument, PushDocument } from '@carillon/store/documents';
import { batchIdsOf } from '@carillon/store/final-outcomes';
import { BATCHES_OF_PUSH_INDEX } from '@carillon/store/migrate';
import { OUTCOME_PROJECTION } from '@carillon/store/recipient-status';
import type { Collection, Db } from 'mongodb';
import { addCounts, countBatch } from './push-summaries.ts';

/**
 * Maximum inbox rows of one push that are counted: further ones are not read, so a push to many costs as much as one to
 * few.
 */
const MAX_ROWS = 1_000;

/** Maximum batches of their own whose outcomes one call reads: two pushes to 100,000 devices. Each is a read of 25 KB. */
const MAX_COUNTED_BATCHES = 200;

/** The fields of a batch that are counted. */
const COUNTED_FIELDS = { ...OUTCOME_PROJECTION, 'work.counts': 1 } as const;

/** Progress of a push: its recipients by outcome, or its batches by state if they are too many to be read. */
export type PushProgress = { counts: OutcomeCounts } | { batches: { total: number; open: number } };

interface StateCount {
  _id: { push: string; state: string };
  n: number;
}

interface Tables {
  pushes: Collection<PushDocument>;
  batches: Collection<BatchDocument>;
}

const FIELDS_THAT_CHANGE = {
  state: 1,
  ending: 1,
  finishedAt: 1,
  counts: 1,
  'fan.next': 1,
  'fan.done': 1,
  'work.state': 1,
  'work.tries': 1,
  'work.outcomes': 1,
  'work.got': 1,
  'work.gone': 1,
  'work.sent': 1,
  'work.refused': 1,
} as const;

/** Reads the progress of pushes that have not ended. */
export function createPushProgress(db: Db) {
  const pushes = db.collection<PushDocument>('pushes');
  const batches = db.collection<BatchDocument>('batches');
  const inbox = db.collection<InboxDocument>('inbox');

  return {
    /**
     * Reads the progress of these pushes. The first of them have their recipients counted, until 200 batches are read;
     * of the others only an index is read.
     */
    readProgress: (ids: readonly string[]) => readProgress({ pushes, batches }, ids),

    /** Finds the accounts of pushes; one that does not exist is left out. */
    async findAccounts(ids: readonly string[]): Promise<Map<string, string>> {
      const found = await pushes
        .aggregate<{ _id: string; account: string }>([
          { $match: { _id: { $in: [...ids] } } },
          { $lookup: { from: 'apps', localField: 'app', foreignField: '_id', as: 'owner' } },
          { $unwind: '$owner' },
          { $project: { account: '$owner.account' } },
        ])
        .toArray();
      return new Map(found.map(({ _id, account }) => [_id, account]));
    },

    /**
     * Returns a text for each push that differs when its state, its outcomes, its batches or its inbox rows have
     * changed; a push that does not exist is left out. Of a push with more than 1,000 inbox rows, receipts from the
     * inbox are seen once fewer are left.
     */
    async readMarks(ids: readonly string[]): Promise<Map<string, string>> {
      const found = await pushes
        .find({ _id: { $in: [...ids] } }, { projection: FIELDS_THAT_CHANGE })
        .toArray();
      const open = found.filter(({ state }) => state !== 'finished').map(({ _id }) => _id);
      const batchCounts = open.length === 0 ? new Map() : await countBatches(batches, open);
      const rows = await Promise.all(
        open.map((push) => inbox.countDocuments({ push }, { limit: MAX_ROWS })),
      );
      const rowCounts = new Map(open.map((push, n) => [push, rows[n]]));
      return new Map(
        found.map((push) => [
          push._id,
          JSON.stringify([push, batchCounts.get(push._id), rowCounts.get(push._id)]),
        ]),
      );
    },
  };
}

function toBatchCount(states: readonly StateCount[]): { total: number; open: number } {
  const count = (some: readonly StateCount[]) => some.reduce((sum, { n }) => sum + n, 0);
  return { total: count(states), open: count(states.filter(({ _id }) => _id.state !== 'closed')) };
}

async function readProgress(
  { pushes, batches }: Tables,
  ids: readonly string[],
): Promise<Map<string, PushProgress>> {
  const progress = new Map<string, PushProgress>();
  if (ids.length === 0) return progress;
  const found = await pushes
    .find({ _id: { $in: [...ids] } }, { projection: COUNTED_FIELDS, batchSize: ids.length + 1 })
    .toArray();
  for (const { _id, work } of found)
    if (work !== undefined) progress.set(_id, { counts: countBatch(work) });
  const others = ids.filter((id) => !progress.has(id));
  if (others.length === 0) return progress;
  const states = await countBatches(batches, others);
  const counted: string[] = [];
  let room = MAX_COUNTED_BATCHES;
  for (const id of others) {
    const ofPush = toBatchCount(states.get(id) ?? []);
    progress.set(id, { batches: ofPush });
    if (ofPush.total > room) continue;
    room -= ofPush.total;
    counted.push(id);
  }
  for (const [id, counts] of await countRecipients(batches, counted)) progress.set(id, { counts });
  return progress;
}

/** Counts the batches of pushes by state, from the index alone. */
async function countBatches(
  batches: Collection<BatchDocument>,
  ids: readonly string[],
): Promise<Map<string, StateCount[]>> {
  const counted = await batches
    .aggregate<StateCount>(
      [
        { $match: { push: { $in: [...ids] } } },
        { $group: { _id: { push: '$push', state: '$work.state' }, n: { $sum: 1 } } },
        { $sort: { _id: 1 } },
      ],
      { hint: BATCHES_OF_PUSH_INDEX },
    )
    .toArray();
  return Map.groupBy(counted, ({ _id }) => _id.push);
}

/** Counts the recipients of pushes whose batches have documents of their own. */
async function countRecipients(
  batches: Collection<BatchDocument>,
  ids: readonly string[],
): Promise<Map<string, OutcomeCounts>> {
  const byPush = new Map(ids.map((id) => [id, {} as OutcomeCounts]));
  if (ids.length === 0) return byPush;
  // By the range of their ids, which never change: a batch that is closed meanwhile is read once.
  const primary = { $or: ids.map(batchIdsOf), 'work.fallback': { $exists: false } };
  const stored = batches.find(primary, { projection: { ...COUNTED_FIELDS, push: 1 } });
  for await (const { push, work } of stored) addCounts(byPush.get(push) ?? {}, countBatch(work));
  return byPush;
}
