import { MongoError, MongoServerError } from 'mongodb';

const DUPLICATE_KEY = 11_000;

/** Whether a write failed because a unique index has its value already. */
export function isDuplicateKey(error: unknown): boolean {
  return error instanceof MongoServerError && error.code === DUPLICATE_KEY;
}

/** Whether MongoDB didn't do its work: away, silent, or refusing. */
export function isDatabaseFailure(error: unknown): boolean {
  return error instanceof MongoError && !isDuplicateKey(error);
}
