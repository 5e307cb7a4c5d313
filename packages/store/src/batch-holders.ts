import { isBatchId } from '@carillon/core/ids';
import type { Collection, Db } from 'mongodb';
import type { Batch, BatchDocument, NotifyEntry, PushDocument } from './documents.ts';
import type { SendablePush } from './sendable-push.ts';

/** A document that holds a batch: the batch's own, or the push in which it is embedded. */
export type BatchHolder = Partial<SendablePush> & {
  _id: string;
  work?: Batch;
  dueAt?: Date;
  notify?: NotifyEntry[];
};

/**
 * Options of writes that do not wait for the journal. A lost claim or lease costs a second try, and a lost release
 * costs the rest of a lease, not a push.
 */
export const FAST_WRITE = { writeConcern: { w: 1, journal: false } } as const;

/**
 * Options that read majority-committed data. A job is added only for a push that is accepted. A primary that is cut off
 * from its majority also has pushes whose sender has got an error, and would deliver them before a failover undoes
 * them.
 */
export const COMMITTED = { readConcern: { level: 'majority' } } as const;

/** The two collections that hold batches. */
export interface BatchHolders {
  pushes: Collection<BatchHolder>;
  batches: Collection<BatchHolder>;
  /** Returns the collection that holds a batch. */
  of(id: string): Collection<BatchHolder>;
}

/** Opens the collections that hold batches. */
export function openBatchHolders(db: Db): BatchHolders {
  const pushes = db.collection<PushDocument>('pushes') as unknown as Collection<BatchHolder>;
  const batches = db.collection<BatchDocument>('batches') as unknown as Collection<BatchHolder>;
  return { pushes, batches, of: (id) => (isBatchId(id) ? batches : pushes) };
}

/** Runs a group once per collection, and returns the results in the order of the items. */
export async function runPerCollection<T extends { id: string }, R>(
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
