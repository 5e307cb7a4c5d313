import { isNativeError } from 'node:util/types';
import { connectStore, type Store } from '@carillon/store/store';
import { Failure, misused, reasonOf, refused, unreachable } from './failure.ts';
import { need, type Stack } from './stack.ts';

/** The driver's errors that mean: the server isn't there, or is silent. */
const UNREACHABLE =
  /^Mongo(ServerSelection|Network|NetworkTimeout|OperationTimeout|TopologyClosed)Error$/;

/**
 * Opens the stack's MongoDB for one piece of work and closes it after.
 *
 * @param timeoutMs total time of one operation; the default of the store if absent
 * @throws Failure when MongoDB can't be reached or refuses
 */
export async function withStore<T>(
  stack: Stack,
  work: (store: Store) => Promise<T>,
  timeoutMs?: number,
): Promise<T> {
  const uri = need(stack, 'mongodb');
  let store: Store | undefined;
  try {
    const wait = timeoutMs === undefined ? {} : { timeoutMs };
    store = await connectStore({ uri, appName: 'carillon-cli', ...wait });
    return await work(store);
  } catch (error) {
    throw asFailure(error, uri);
  } finally {
    await store?.close();
  }
}

function asFailure(error: unknown, uri: string): unknown {
  if (error instanceof Failure || !isNativeError(error)) return error;
  const where = placeOf(uri);
  if (UNREACHABLE.test(error.name) || 'syscall' in error) {
    return unreachable(`MongoDB at ${where} can't be reached: ${reasonOf(error)}.`);
  }
  if (error.name === 'MongoParseError') {
    return misused(`The address of MongoDB can't be used: ${reasonOf(error)}.`);
  }
  return error.name.startsWith('Mongo')
    ? refused(`MongoDB at ${where} refused: ${reasonOf(error)}.`)
    : error;
}

/** Host and port of an address, without the user and password before them. */
export function placeOf(address: string): string {
  return address.replace(/^[a-z+]+:\/\/(.*@)?/, '').replace(/[/?].*$/, '');
}

/** @throws Failure when there is no such app */
export async function needApp(store: Pick<Store, 'apps'>, id: string): Promise<void> {
  if ((await store.apps.find(id)) === undefined) throw refused(`There is no app ${id}.`);
}
