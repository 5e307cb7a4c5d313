import { createGroup } from '@carillon/core/group';
import { isBatchId } from '@carillon/core/ids';
import { bitWords } from '@carillon/core/work';
import type { AnyBulkWriteOperation, Db, Document } from 'mongodb';
import type { BatchDocument, InboxDocument, PushDocument } from './documents.ts';
import { bulkErrors } from './inserting.ts';

/** A device's proof that came later than its hand-over waited for. */
export interface LateReceipt {
  rowId: string;
  push: string;
  work: string;
  position: number;
}

/** Late receipts: first the bit in the batch, then the row, so that a receipt is never lost between the two. */
export function createReceipts(db: Db) {
  const pushes = db.collection<PushDocument>('pushes');
  const batches = db.collection<BatchDocument>('batches');
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
    const positions = new Map<string, number[]>();
    for (const { work, position } of receipts) {
      const list = positions.get(work);
      if (list === undefined) positions.set(work, [position]);
      else list.push(position);
    }
    const toPushes: AnyBulkWriteOperation<Document>[] = [];
    const toBatches: AnyBulkWriteOperation<Document>[] = [];
    for (const [_id, list] of positions) {
      const bits: Record<string, { or: number }> = {};
      for (const [word, value] of bitWords(list)) bits[`work.got.${word}`] = { or: value };
      const update = { updateOne: { filter: { _id }, update: { $bit: bits } } };
      (isBatchId(_id) ? toBatches : toPushes).push(
        update as unknown as AnyBulkWriteOperation<Document>,
      );
    }
    const targets = [
      { collection: pushes, operations: toPushes },
      { collection: batches, operations: toBatches },
    ];
    await Promise.all(
      targets.map(async ({ collection, operations }) => {
        if (operations.length === 0) return;
        const errors = await bulkErrors(collection as never, operations);
        for (const { error } of errors.values()) throw error;
      }),
    );
  }

  /** A row is removed only for the push that was received: a newer one of its collapse key stays owed. */
  async function removeRows(receipts: LateReceipt[]): Promise<void> {
    const rowsOf = new Map<string, string[]>();
    for (const { push, rowId } of receipts) {
      const list = rowsOf.get(push);
      if (list === undefined) rowsOf.set(push, [rowId]);
      else list.push(rowId);
    }
    await inbox.bulkWrite(
      [...rowsOf].map(([push, rowIds]) => ({
        deleteMany: { filter: { _id: { $in: rowIds }, push } },
      })),
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
