import { failpoint } from '@carillon/core/failpoint';
import { ACCEPTANCE_PRECISION_MS, type IdleCursor, type IdleDevice } from './idle-devices.ts';
import type { Store } from './store.ts';

/** Devices of a page. */
const DEVICES_PER_PAGE = 1_000;
/** What a page of a prune has found and done. */
export interface PrunedPage {
  /** Position from which the next page continues; absent after the last one. */
  next?: IdleCursor;
  /** Devices that are deleted, or in a dry run would be. */
  deleted: number;
  /** Devices that stay because they are connected. */
  connected: number;
  /** Devices that stay because they were imported since, or because their provider may have accepted a push. */
  kept: number;
}

/** Which devices of an app are pruned. */
export interface PruneQuery {
  app: string;
  /** Devices are deleted that were last seen at this time or earlier: some days ago (LIMITS.pruneDaysMin). */
  before: Date;
  after?: IdleCursor | undefined;
  /** Nothing is written. */
  isDryRun?: boolean;
}

export interface PruneResources {
  store: Pick<Store, 'apps' | 'devices' | 'deletedDevices' | 'idleDevices' | 'clock'>;
  /** Reads which devices are connected, in the order of the tokens. Throws if Redis fails: then nothing is pruned. */
  areOnline(tokens: readonly string[]): Promise<boolean[]>;
  checkCompletion(pushes: readonly string[]): Promise<void>;
}

/**
 * Prunes a page of an app's idle devices, without a round trip for each. May be killed and repeated at any point: the scheduler
 * clears devices that are deleted and not cleared (store/deleted-devices).
 *
 * No device that connects meanwhile is deleted. The write that deletes devices leaves out those that were seen since. A CONNECT of an
 * idle device reads it, records that it is seen, and reads it again before it is accepted: either that record comes first and the
 * device stays, or the deletion does and the CONNECT is rejected. A registration records it by the write that it consists of.
 * Presence is read for devices whose record is late: those that were accepted while MongoDB failed, or while the record did.
 */
export async function prunePage(
  { store, areOnline, checkCompletion }: PruneResources,
  { app, before, after, isDryRun = false }: PruneQuery,
): Promise<PrunedPage> {
  const { idleDevices, deletedDevices, devices, clock } = store;
  const recordedSince = (await store.apps.find(app))?.acceptancesSince;
  const page = await idleDevices.list(app, before, after, DEVICES_PER_PAGE);
  const last = page.length === DEVICES_PER_PAGE ? page.at(-1) : undefined;
  const tokens = page
    .filter((device) => isIdle(device, before, recordedSince))
    .map(({ token }) => token);
  const online = await areOnline(tokens);
  const connected = tokens.filter((_, index) => online[index] === true);
  const offline = tokens.filter((_, index) => online[index] !== true);
  const result = {
    ...(last && { next: { token: last.token, lastActiveAt: last.lastActiveAt } }),
    connected: connected.length,
    kept: page.length - tokens.length,
  };
  if (isDryRun) return { ...result, deleted: offline.length };
  const at = clock.now();
  await devices.touch(connected.map((token) => ({ token, at })));
  const deleted = await deletedDevices.deleteIdle(app, offline, before);
  failpoint('pruned', app);
  await checkCompletion(await deletedDevices.clearDeleted(app, deleted));
  return { ...result, deleted: deleted.length };
}

/**
 * Checks that a device was seen in no way since `before`. What its provider accepts is recorded while the app prunes by itself, to a
 * day: before that is known for the whole time, a device with a live address stays.
 */
function isIdle(
  { lastActiveAt, addressSince, importedAt, hasLiveAddress }: IdleDevice,
  before: Date,
  recordedSince: Date | undefined,
): boolean {
  const others = [addressSince, importedAt];
  if (others.some((at) => at !== undefined && at > before)) return false;
  if (!hasLiveAddress) return true;
  const acceptedBefore = new Date(before.getTime() - ACCEPTANCE_PRECISION_MS);
  return (
    recordedSince !== undefined && recordedSince <= acceptedBefore && lastActiveAt <= acceptedBefore
  );
}
