import { processCounts } from '@carillon/core/process-counts';
import type { AbstractCursor, Collection, CollectionOptions, Db } from 'mongodb';

type AsyncMethod = (...args: unknown[]) => Promise<unknown>;

/** Methods of a collection that send commands. */
const COMMANDS = [
  'bulkWrite',
  'countDocuments',
  'createIndex',
  'deleteMany',
  'deleteOne',
  'distinct',
  'findOne',
  'findOneAndUpdate',
  'insertMany',
  'insertOne',
  'replaceOne',
  'updateMany',
  'updateOne',
] as const;
/** Methods of a collection that create a cursor, which sends commands when it is read. */
const CURSORS = ['aggregate', 'find'] as const;

/** MongoDB's error code of a duplicate key. */
const DUPLICATE_KEY = 11_000;

/**
 * Counts the failed calls of a database and its collections for the metrics. The driver's command monitoring would also
 * report failures, but it then builds two events for each command and reads each reply of a cursor twice; this costs a
 * promise for each call.
 */
export function countFailures(db: Db): Db {
  const openCollection = db.collection.bind(db);
  const collections = (name: string, options?: CollectionOptions) =>
    watchCollection(openCollection(name, options));
  return Object.assign(db, {
    collection: collections,
    command: countRejections(db.command.bind(db) as AsyncMethod),
  });
}

function watchCollection(collection: Collection): Collection {
  const watched: Record<string, unknown> = {};
  for (const name of COMMANDS) watched[name] = countRejections(bindMethod(collection, name));
  for (const name of CURSORS) {
    const open = bindMethod<(...args: unknown[]) => AbstractCursor>(collection, name);
    watched[name] = (...args: unknown[]) => watchCursor(open(...args));
  }
  return Object.assign(collection, watched);
}

/** Binds a method by its name. @throws Error when this version of the driver has no such method */
function bindMethod<T = AsyncMethod>(owner: object, name: string): T {
  const method: unknown = Reflect.get(owner, name);
  if (typeof method !== 'function') throw new Error(`the driver has no method ${name}`);
  return method.bind(owner);
}

/** Watches the method that fetches each batch, which all ways of reading a cursor use: nothing is paid per document. */
function watchCursor(cursor: AbstractCursor): AbstractCursor {
  return Object.assign(cursor, { fetchBatch: fetchCounted });
}

/**
 * Fetches a batch as the driver does. One function for all cursors: with a closure of its own, each cursor and its
 * documents lived until the next collection of old memory.
 */
function fetchCounted(this: AbstractCursor): Promise<unknown> {
  const fetchBatch = Reflect.get(Object.getPrototypeOf(this), 'fetchBatch') as AsyncMethod;
  return fetchBatch.call(this).catch(countAndThrow);
}

function countRejections(call: AsyncMethod): AsyncMethod {
  return (...args) => call(...args).catch(countAndThrow);
}

/** Errors that were counted: some methods call others. */
const countedErrors = new WeakSet<object>();

function countAndThrow(error: Error & { code?: unknown }): never {
  // Two processes insert the same document, and one of them fails because it exists.
  if (error.code !== DUPLICATE_KEY && !countedErrors.has(error)) {
    countedErrors.add(error);
    processCounts.mongodbCommandFailures += 1;
  }
  throw error;
}
