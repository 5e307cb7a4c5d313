import { isNativeError } from 'node:util/types';
import { describeError } from '@carillon/admin/admin-error';
import { SettingsError } from '@carillon/core/settings-error';
import { createReports, type Reports } from '@carillon/reports/reports';
import { connectStore, type Store } from '@carillon/store/store';
import { createWebhookStore, type WebhookStore } from '@carillon/webhooks/webhook-store';
import { commandFailed, Failure, serviceUnreachable, usageError } from './failure.ts';
import { requireSetting, type Stack } from './stack.ts';

/** Everything that commands read and write of MongoDB. */
export type CommandStore = Store & Reports & WebhookStore;

/** Names of the driver's errors that mean that the server can't be reached or does not respond. */
const UNREACHABLE_ERROR =
  /^Mongo(ServerSelection|Network|NetworkTimeout|OperationTimeout|TopologyClosed)Error$/;

/**
 * Opens the stack's MongoDB for one operation and closes it afterwards.
 *
 * @param timeoutMs maximum duration of one database operation; the store's default if absent
 * @throws Failure when MongoDB can't be reached or rejects the operation
 */
export async function withStore<T>(
  stack: Stack,
  operation: (store: CommandStore) => Promise<T>,
  timeoutMs?: number,
): Promise<T> {
  const uri = requireSetting(stack, 'mongodb');
  let store: Store | undefined;
  try {
    const timeout = timeoutMs === undefined ? {} : { timeoutMs };
    store = await connectStore({ uri, appName: 'carillon-cli', ...timeout });
    return await operation({ ...store, ...createReports(store), ...createWebhookStore(store) });
  } catch (error) {
    throw toFailure(error, uri);
  } finally {
    await store?.close();
  }
}

function toFailure(error: unknown, uri: string): unknown {
  if (error instanceof Failure || !isNativeError(error)) return error;
  const host = hostOf(uri);
  if (UNREACHABLE_ERROR.test(error.name) || 'syscall' in error) {
    return serviceUnreachable(`MongoDB at ${host} can't be reached: ${describeError(error)}.`);
  }
  if (error instanceof SettingsError) {
    return usageError(`The address of MongoDB is invalid: ${describeError(error.cause)}.`);
  }
  return error.name.startsWith('Mongo')
    ? commandFailed(`MongoDB at ${host} returned an error: ${describeError(error)}.`)
    : error;
}

/** Returns host and port of an address, without user and password. */
export function hostOf(address: string): string {
  return address.replace(/^[a-z+]+:\/\/(.*@)?/, '').replace(/[/?].*$/, '');
}
