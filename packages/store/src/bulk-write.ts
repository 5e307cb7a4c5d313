import {
  type AnyBulkWriteOperation,
  type BulkWriteOptions,
  type Collection,
  type Document,
  MongoBulkWriteError,
} from 'mongodb';

const DUPLICATE_KEY = 11_000;

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
): Promise<Map<number, { duplicate: boolean; error: Error }>> {
  const errors = new Map<number, { duplicate: boolean; error: Error }>();
  if (operations.length === 0) return errors;
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
