import type { BatchDocument, InboxDocument, PushDocument } from '@carillon/store/documents';
import { BATCHES_OF_PUSH_INDEX } from '@carillon/store/migrate';
import type { Db } from 'mongodb';

/**
 * Maximum inbox rows of one push that are counted: further ones are not read, so a push to many costs as much as one to
 * few.
 */
const MAX_ROWS = 1_000;

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

/** Detects progress of pushes, without reading their batches. */
export function createPushProgress(db: Db) {
  const pushes = db.collection<PushDocument>('pushes');
  const batches = db.collection<BatchDocument>('batches');
  const inbox = db.collection<InboxDocument>('inbox');

  /** Counts the batches of pushes by state, from the index alone. */
  async function countBatches(ids: readonly string[]): Promise<Map<string, unknown[]>> {
    const counted = await batches
      .aggregate<{ _id: { push: string; state: string }; n: number }>(
        [
          { $match: { push: { $in: [...ids] } } },
          { $group: { _id: { push: '$push', state: '$work.state' }, n: { $sum: 1 } } },
          { $sort: { _id: 1 } },
        ],
        { hint: BATCHES_OF_PUSH_INDEX },
      )
      .toArray();
    const byPush = Map.groupBy(counted, ({ _id }) => _id.push);
    return new Map([...byPush].map(([push, groups]) => [push, groups]));
  }

  return {
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
      const batchCounts = open.length === 0 ? new Map() : await countBatches(open);
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
