import {
  type AnyBulkWriteOperation,
  type BulkWriteOptions,
  type Collection,
  type Document,
  MongoBulkWriteError,
  MongoServerError,
  type OptionalId,
  type OptionalUnlessRequiredId,
} from 'mongodb';
import { isOutage } from './mongo-errors.ts';

/** MongoDB's error code of a duplicate key. */
const DUPLICATE_KEY = 11_000;

/** Errors of single operations, by their index in the list. */
type WriteErrors = Map<number, { duplicate: boolean; error: Error }>;

/**
 * Runs an unordered bulk write and returns the errors of single operations by their index in the list. Without
 * operations it sends nothing. Only errors that MongoDB attributes to single operations are returned.
 *
 * @throws all other errors, such as a lost connection or a failed write concern. The operations may have taken effect.
 */
export async function bulkWriteErrors<T extends Document>(
  collection: Collection<T>,
  operations: AnyBulkWriteOperation<T>[],
  options: Pick<BulkWriteOptions, 'writeConcern'> = {},
): Promise<WriteErrors> {
  const errors: WriteErrors = new Map();
  const [first] = operations;
  if (first === undefined) return errors;
  if (operations.length === 1 && 'insertOne' in first)
    return insertAlone(collection, first.insertOne.document, options);
  try {
    await collection.bulkWrite(operations, { ordered: false, ...options });
  } catch (error) {
    if (!(error instanceof MongoBulkWriteError)) throw error;
    const writeErrors = [error.writeErrors].flat();
    // The driver wraps a lost connection in the same class, without errors of operations. A failed write concern
    // affects every operation.
    if (writeErrors.length === 0 || error.result.getWriteConcernError() !== undefined) throw error;
    for (const writeError of writeErrors) {
      errors.set(writeError.index, {
        duplicate: writeError.code === DUPLICATE_KEY,
        error: new Error(writeError.errmsg ?? 'a write failed'),
      });
    }
  }
  return errors;
}

/** Inserts a single document. The driver's bulk write takes half as much CPU again for it. */
async function insertAlone<T extends Document>(
  collection: Collection<T>,
  document: OptionalId<T>,
  options: Pick<BulkWriteOptions, 'writeConcern'>,
): Promise<WriteErrors> {
  try {
    await collection.insertOne(document as OptionalUnlessRequiredId<T>, options);
    return new Map();
  } catch (error) {
    // The driver throws a failed write concern in preference to the error of the document.
    if (!(error instanceof MongoServerError) || isOutage(error)) throw error;
    const writeError = new Error(error.message);
    return new Map([[0, { duplicate: error.code === DUPLICATE_KEY, error: writeError }]]);
  }
}
