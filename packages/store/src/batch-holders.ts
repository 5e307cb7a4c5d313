import { isBatchId } from '@carillon/core/ids';
import type { Collection, Db } from 'mongodb';
import type { Batch, BatchDocument, NotifyEntry, PushDocument } from './documents.ts';
import type { SendablePush } from './sendable-push.ts';

/** A document that holds a batch: the batch's own, or the push in which it is embedded. */
export type BatchHolder = Partial<SendablePush> & {
  _id: string;
  work?: Batch;
  notify?: NotifyEntry[];
};

/** A lost claim or lease costs a second try, not a push, so writes of claims do not wait for the journal. */
export const FAST_WRITE = { writeConcern: { w: 1, journal: false } } as const;

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
