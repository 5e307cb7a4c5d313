import { createGroup } from '@carillon/core/group';
import { isBatchId } from '@carillon/core/ids';
import { bitWords } from '@carillon/core/work';
import type { Db, Filter } from 'mongodb';
import type { InboxDocument } from './documents.ts';
import { namesCollapseKey } from './inbox.ts';

/** A device's proof that came later than its hand-over waited for. */
export interface LateReceipt {
  rowId: string;
  push: string;
  work: string;
  position: number;
}

/** Late receipts: first the bit in the batch, then the row, so that a receipt is never lost between the two. */
export function createReceipts(db: Db) {
  const pushes = db.collection<{ _id: string }>('pushes');
  const batches = db.collection<{ _id: string }>('batches');
  const inbox = db.collection<InboxDocument>('inbox');

  const recordGrouped = createGroup<LateReceipt, void>(
    async (receipts) => {
      await writeBits(receipts);
      await removeRows(receipts);
      return receipts.map(() => undefined);
    },
    { maxItems: 1_000, inFlight: 2 },
  );

  async function writeBits(receipts: LateReceipt[]): Promise<void> {
    const works = Map.groupBy(receipts, ({ work }) => work);
    // Most works have one recipient, so the same bit is to be set in many of them.
    const alike = Map.groupBy(works.keys(), (id) =>
      JSON.stringify([isBatchId(id), bitsOf(works.get(id) ?? [])]),
    );
    const updates = [...alike.values()].map((ids) => ({
      filter: { _id: { $in: ids } },
      update: { $bit: bitsOf(works.get(ids[0] ?? '') ?? []) },
    }));
    await Promise.all(
      [pushes, batches].map(async (holder) => {
        const isOfBatches = holder === batches;
        const operations = updates
          .filter(({ filter }) => isBatchId(filter._id.$in[0] ?? '') === isOfBatches)
          .map((updateMany) => ({ updateMany }));
        if (operations.length > 0) await holder.bulkWrite(operations, { ordered: false });
      }),
    );
  }

  /** A row is removed only for the push that was received: a newer one of its collapse key stays owed. */
  async function removeRows(receipts: LateReceipt[]): Promise<void> {
    const [plain = [], collapsing = []] = [false, true].map((wanted) =>
      receipts.filter(({ rowId }) => namesCollapseKey(rowId) === wanted),
    );
    const byPush = Map.groupBy(collapsing, ({ push }) => push);
    const filters: Filter<InboxDocument>[] = [...byPush].map(([push, some]) => {
      return { _id: { $in: idsOf(some) }, push };
    });
    // Their ids name the push.
    if (plain.length > 0) filters.push({ _id: { $in: idsOf(plain) } });
    await inbox.bulkWrite(
      filters.map((filter) => ({ deleteMany: { filter } })),
      { ordered: false },
    );
  }

  return {
    /** Records receipts durably; lone calls share the sync. */
    async record(receipts: readonly LateReceipt[]): Promise<void> {
      await Promise.all(receipts.map((receipt) => recordGrouped(receipt)));
    },
  };
}

/** What to set in a work for these receipts of it. */
function bitsOf(receipts: readonly LateReceipt[]): Record<string, { or: number }> {
  const words = bitWords(receipts.map(({ position }) => position));
  return Object.fromEntries([...words].map(([word, or]) => [`work.got.${word}`, { or }]));
}

function idsOf(receipts: readonly LateReceipt[]): string[] {
  return receipts.map(({ rowId }) => rowId);
}
