import type { Channel } from '@carillon/core/channels';
import { failpoint } from '@carillon/core/failpoint';
import type { AppDocument } from './documents.ts';
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
  /**
   * Devices that stay because they may have been seen since: they were imported, or could not register, or their provider may have
   * accepted a push.
   */
  kept: number;
  /** Nothing was read: the app is paused, or its account suspended. */
  isHeld?: true;
}

/** Which devices of an app are pruned. */
export interface PruneQuery {
  /** As just read. */
  app: Pick<AppDocument, '_id' | 'account' | 'pausedAt' | 'acceptancesSince'>;
  /** Devices are deleted that were last seen at this time or earlier: some days ago (LIMITS.pruneDaysMin). */
  before: Date;
  after?: IdleCursor | undefined;
  /** Nothing is written. */
  isDryRun?: boolean;
}

export interface PruneResources {
  store: Pick<
    Store,
    'accounts' | 'credentials' | 'devices' | 'deletedDevices' | 'idleDevices' | 'clock'
  >;
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
  { app: { _id: app, account, pausedAt, acceptancesSince }, before, after, isDryRun }: PruneQuery,
): Promise<PrunedPage> {
  const { idleDevices, deletedDevices, devices, clock } = store;
  const { suspendedAt, resumedAt } = (await store.accounts.find(account)) ?? {};
  if (pausedAt !== undefined || suspendedAt !== undefined)
    return { deleted: 0, connected: 0, kept: 0, isHeld: true };
  const seen = { before, resumedAt, acceptancesSince, channels: await readChannels(store, app) };
  const page = await idleDevices.list(app, before, after, DEVICES_PER_PAGE);
  const last = page.length === DEVICES_PER_PAGE ? page.at(-1) : undefined;
  const tokens = page.filter((device) => isIdle(device, seen)).map(({ token }) => token);
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
  await checkCompletion(await deletedDevices.clearIdle(app, deleted));
  return { ...result, deleted: deleted.length };
}

/** Reads the channels over which the app's providers accept pushes: it has credentials, of which none is refused. */
async function readChannels(
  { credentials }: Pick<Store, 'credentials'>,
  app: string,
): Promise<Set<Channel>> {
  const found = await credentials.list(app);
  const refused = new Set(found.flatMap((one) => (one.refused ? [one.channel] : [])));
  return new Set(found.map(({ channel }) => channel).filter((channel) => !refused.has(channel)));
}

/** What shows whether a device was seen since `before`. */
interface Seen {
  before: Date;
  /** Since when devices can register. */
  resumedAt: Date | undefined;
  acceptancesSince: Date | undefined;
  /** Channels over which pushes are accepted now. */
  channels: ReadonlySet<Channel>;
}

/**
 * Checks that a device was seen in no way since `before`. What its provider accepts is recorded while the app prunes by itself, to a
 * day: unless that is known for the whole time, and could be accepted, a device with a live address stays.
 */
function isIdle(
  { lastActiveAt, addressSince, importedAt, liveChannel }: IdleDevice,
  { before, resumedAt, acceptancesSince, channels }: Seen,
): boolean {
  const others = [addressSince, importedAt, resumedAt];
  if (others.some((at) => at !== undefined && at > before)) return false;
  if (liveChannel === undefined) return true;
  const acceptedBefore = new Date(before.getTime() - ACCEPTANCE_PRECISION_MS);
  return (
    channels.has(liveChannel) &&
    acceptancesSince !== undefined &&
    acceptancesSince <= acceptedBefore &&
    lastActiveAt <= acceptedBefore
  );
}
