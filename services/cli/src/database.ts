import { isNativeError } from 'node:util/types';
import { describeError } from '@carillon/admin/admin-error';
import { describeSilence } from '@carillon/admin/await-answer';
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
/** Codes of sockets' and DNS errors, which the driver passes on. Others are of files. */
const SOCKET_ERROR = /^E(AI_|CONN|HOST|NET|NODATA$|NOTFOUND$|PIPE$|REFUSED$|SERVFAIL$|TIMED?OUT$)/;

/** Limits of an operation; the store's defaults if absent. */
interface Limits {
  /** Maximum duration of one database operation. */
  timeoutMs?: number;
  /** Maximum wait for a server. */
  connectMs?: number;
  /** True once a server has accepted a connection: one that stays silent is not said to be out of reach. */
  isReachable?: boolean;
}

/**
 * Opens the stack's MongoDB for one operation and closes it afterwards.
 *
 * @throws Failure when MongoDB can't be reached or rejects the operation
 */
export async function withStore<T>(
  stack: Stack,
  operation: (store: CommandStore) => Promise<T>,
  { isReachable = false, ...limits }: Limits = {},
): Promise<T> {
  const uri = requireSetting(stack, 'mongodb');
  let store: Store | undefined;
  try {
    store = await connectStore({ uri, appName: 'carillon-cli', ...limits });
    return await operation({ ...store, ...createReports(store), ...createWebhookStore(store) });
  } catch (error) {
    if (isReachable && isSilent(error))
      throw commandFailed(describeSilence(`MongoDB at ${hostOf(uri)}`));
    throw toFailure(error, uri);
  } finally {
    await store?.close();
  }
}

/** Checks for a failed connect to servers of which none has answered anything. */
function isSilent(error: unknown): boolean {
  const { reason } = error as {
    reason?: { servers?: Map<string, { type: string; error: unknown }> };
  };
  const servers = [...(reason?.servers?.values() ?? [])];
  const isTimeout = (cause: unknown) =>
    !isNativeError(cause) || cause.name === 'MongoNetworkTimeoutError';
  return (
    servers.length > 0 &&
    servers.every(({ type, error: cause }) => type === 'Unknown' && isTimeout(cause))
  );
}

function toFailure(error: unknown, uri: string): unknown {
  if (error instanceof Failure || !isNativeError(error)) return error;
  const host = hostOf(uri);
  const { code } = error as NodeJS.ErrnoException;
  if (UNREACHABLE_ERROR.test(error.name) || SOCKET_ERROR.test(String(code))) {
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
