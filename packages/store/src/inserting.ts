import {
  type AnyBulkWriteOperation,
  type BulkWriteOptions,
  type Collection,
  type Document,
  MongoBulkWriteError,
} from 'mongodb';

const DUPLICATE_KEY = 11_000;

/**
 * Runs an unordered bulk write and tells what went wrong with which operation, by its place in the list.
 * Only errors that MongoDB attributes to single operations come back; anything else throws.
 */
export async function bulkErrors<T extends Document>(
  collection: Collection<T>,
  operations: AnyBulkWriteOperation<T>[],
  options: Pick<BulkWriteOptions, 'writeConcern'> = {},
): Promise<Map<number, { duplicate: boolean; error: Error }>> {
  const errors = new Map<number, { duplicate: boolean; error: Error }>();
  try {
    await collection.bulkWrite(operations, { ordered: false, ...options });
  } catch (error) {
    // A write concern that wasn't met concerns every operation of the group.
    if (
      !(error instanceof MongoBulkWriteError) ||
      error.result.getWriteConcernError() !== undefined
    ) {
      throw error;
    }
    const single = Array.isArray(error.writeErrors) ? error.writeErrors : [error.writeErrors];
    for (const one of single) {
      errors.set(one.index, {
        duplicate: one.code === DUPLICATE_KEY,
        error: new Error(one.errmsg ?? 'a write failed'),
      });
    }
  }
  return errors;
}
