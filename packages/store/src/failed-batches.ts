import { describeOutcome, type Failure, failureBit, isFailure } from '@carillon/core/outcomes';
import type { Collection, Document, Filter } from 'mongodb';
import type { Batch } from './documents.ts';
import { type OutcomeFields, outcomeCodes } from './recipient-status.ts';

/** Fields of the mark; the indexes of failures hold all of them. */
export const MARK = { 'work.failedAt': 1, 'work.channel': 1, 'work.failures': 1 } as const;

/** The fields of a batch with failed recipients. */
export type BatchWithFailures = OutcomeFields &
  Pick<Batch, 'channel' | 'failedAt' | 'failures' | 'words' | 'redriven'>;
/** A batch with a failed recipient, as the indexes of failures hold it. */
export type Mark = {
  _id: string;
  work: Pick<BatchWithFailures, 'failedAt' | 'channel' | 'failures'>;
};
/** A document with a batch: a push, or a batch of its own. */
export type Holder = { _id: string; app: string; work: Batch };
export type Holders = Collection<Holder>;

/** The collections that hold batches. */
export interface Tables {
  pushes: Holders;
  batches: Holders;
}

/** Reads marks from both collections in one order. */
export function readMarks(
  { pushes, batches }: Tables,
  filter: Filter<Holder>,
  order: { sort: [string, 1 | -1][]; hint: Document; batchSize: number },
  compare: (a: Mark, b: Mark) => number,
): AsyncGenerator<Mark> {
  const open = (collection: Holders) =>
    collection.find<Mark>(filter, { projection: MARK, ...order });
  return mergeSorted(open(pushes), open(batches), compare);
}

/** Compares marks by the id of their batch. */
export function compareById(a: Mark, b: Mark): number {
  return a._id < b._id ? -1 : 1;
}

/** Checks whether a batch has a failed recipient with a reason; without a reason, each has one. */
export function hasReason({ work: { failures = 0 } }: Mark, reason: Failure | undefined): boolean {
  return reason === undefined || (failures & failureBit(reason)) !== 0;
}

/** Returns the positions of the recipients of a batch that have failed, with one reason or with any. */
export function failedPositions(batch: BatchWithFailures, reason: Failure | undefined): number[] {
  return [...outcomeCodes(batch).entries()].flatMap(([position, code]) => {
    if (!isFailure(code)) return [];
    return reason === undefined || describeOutcome(code).reason === reason ? [position] : [];
  });
}

/** Merges two sorted sources into one; closes both when the consumer stops early or one of them fails. */
async function* mergeSorted<T>(
  first: AsyncIterable<T>,
  second: AsyncIterable<T>,
  compare: (a: T, b: T) => number,
): AsyncGenerator<T> {
  const [one, other] = [first[Symbol.asyncIterator](), second[Symbol.asyncIterator]()];
  try {
    let [a, b] = await Promise.all([one.next(), other.next()]);
    while (!(a.done && b.done)) {
      if (b.done || (!a.done && compare(a.value, b.value) <= 0)) {
        yield a.value;
        a = await one.next();
      } else {
        yield b.value;
        b = await other.next();
      }
    }
  } finally {
    await Promise.all([one.return?.(), other.return?.()]);
  }
}
