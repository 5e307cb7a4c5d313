import { failpoint } from '@carillon/core/failpoint';
import { ACCEPTANCE_PRECISION_MS, type IdleCursor, type IdleDevice } from './idle-devices.ts';
import type { Store } from './store.ts';

/** Devices of a page. */
const DEVICES_PER_PAGE = 1_000;
/**
 * Minimum age of a mark with which a device is deleted. It is longer than a connect takes from the read of its device to its entry
 * in presence, and than gateways take to write their entries again after Redis was restarted.
 */
export const PRUNE_DELAY_MS = 15_000;

/** What a page of a prune has found and done. */
export interface PrunedPage {
  /** Position from which the next page continues; absent after the last one. */
  next?: IdleCursor;
  /** Deleted devices. */
  deleted: number;
  /** Devices that are marked, and may be deleted {@link PRUNE_DELAY_MS} later. */
  marked: number;
  /** Devices that stay because they are connected. */
  connected: number;
  /** Devices that stay because their provider may have accepted a push since. */
  reachable: number;
}

/** Which devices of an app are pruned. */
export interface PruneQuery {
  app: string;
  /** Deletes devices that were last seen at this time or earlier. */
  before: Date;
  after?: IdleCursor | undefined;
  /** Counts as marked what would be deleted, and writes nothing. */
  isDryRun?: boolean;
}

interface PruneResources {
  store: Pick<Store, 'apps' | 'devices' | 'deletedDevices' | 'idleDevices' | 'clock'>;
  /** Reads which devices are connected, in the order of the tokens. Throws if Redis fails: then nothing is pruned. */
  areOnline(tokens: readonly string[]): Promise<boolean[]>;
  checkCompletion(pushes: readonly string[]): Promise<void>;
}

/**
 * Prunes a page of an app's idle devices, without a round trip for each. May be killed and repeated at any point.
 *
 * No device that connects meanwhile is deleted. A page marks its devices; a later one, after {@link PRUNE_DELAY_MS}, finds that
 * they are not connected and deletes those that still have the mark and were not seen. A CONNECT reads the device, and
 * registers the connection in presence after that.
 * - If it reads the device before the mark is written, it is in presence before the later page looks there.
 * - If it reads the mark, it removes the mark and reads the device again before it is accepted. Either the deletion finds no mark,
 *   or the connect finds the deletion and is rejected.
 * A device that registers is seen at that moment, by the same write.
 */
export async function prunePage(
  { store, areOnline, checkCompletion }: PruneResources,
  { app, before, after, isDryRun = false }: PruneQuery,
): Promise<PrunedPage> {
  const { idleDevices, deletedDevices, devices, clock } = store;
  const page = await idleDevices.list(app, before, after, DEVICES_PER_PAGE);
  const last = page.length === DEVICES_PER_PAGE ? page.at(-1) : undefined;
  const recordedSince = (await store.apps.find(app))?.acceptancesSince;
  const idle = page.filter((device) => isIdle(device, before, recordedSince));
  const online = await areOnline(idle.map(({ token }) => token));
  const offline = idle.filter((_, index) => online[index] !== true);
  const nowMs = clock.now();
  const due = offline.filter(
    ({ pruneMarkedAt: at }) => at !== undefined && at.getTime() <= nowMs - PRUNE_DELAY_MS,
  );
  const result = {
    ...(last && { next: { token: last.token, lastActiveAt: last.lastActiveAt } }),
    connected: idle.length - offline.length,
    reachable: page.length - idle.length,
  };
  if (isDryRun) return { ...result, deleted: 0, marked: offline.length };
  const connected = idle.filter((_, index) => online[index] === true);
  await devices.touch(connected.map(({ token }) => ({ token, at: nowMs })));
  const isDue = new Set(due);
  const unmarked = offline.filter((device) => !isDue.has(device));
  await idleDevices.mark(
    app,
    unmarked.map(({ token }) => token),
    before,
  );
  failpoint('prune-marked', app);
  const deleted = await deletedDevices.deleteMarked(
    app,
    due.map(({ token }) => token),
    before,
  );
  failpoint('prune-deleted', app);
  await checkCompletion(await deletedDevices.clearDeleted(app, deleted));
  return { ...result, deleted: deleted.length, marked: unmarked.length };
}

/**
 * Checks that a device was seen in no way since `before`. What its provider accepts is recorded while the app prunes by itself, to a
 * day: before that is known for the whole time, a device with a live address stays.
 */
function isIdle(
  { lastActiveAt, addressSince, hasLiveAddress }: IdleDevice,
  before: Date,
  recordedSince: Date | undefined,
): boolean {
  if (addressSince !== undefined && addressSince > before) return false;
  if (!hasLiveAddress) return true;
  const acceptedBefore = new Date(before.getTime() - ACCEPTANCE_PRECISION_MS);
  return (
    recordedSince !== undefined && recordedSince <= acceptedBefore && lastActiveAt <= acceptedBefore
  );
}
