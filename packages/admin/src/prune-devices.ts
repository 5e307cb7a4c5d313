import { LIMITS } from '@carillon/core/limits';
import { createPresenceReader } from '@carillon/presence/presence-reader';
import { connectPresence } from '@carillon/presence/presence-server';
import type { RedisAddress } from '@carillon/presence/redis';
import { createProducers } from '@carillon/queue/producers';
import { type PrunedPage, type PruneResources, prunePage } from '@carillon/store/prune-devices';
import type { Store } from '@carillon/store/store';
import { AdminError } from './admin-error.ts';
import { requireApp } from './require-app.ts';

const DAY_MS = 86_400_000;

/** Counts of a prune. */
export type PrunedDevices = Pick<PrunedPage, 'deleted' | 'connected' | 'kept'>;

type PruneStore = PruneResources['store'] & Pick<Store, 'apps' | 'knownWebhooks'>;

/** A prune of one app's devices. */
interface Prune {
  app: string;
  /** Devices are deleted that were last seen at this time or earlier. */
  notSeenSince: Date;
  /** Counts the devices, and writes nothing. */
  isDryRun: boolean;
}

/**
 * Deletes the devices of an app that were not seen since a time: they did not register or connect, and acknowledged nothing. A device
 * with a live provider address stays unless the app has recorded what its provider accepts since before that time. May be
 * interrupted and repeated.
 *
 * @param redis the Redis of the queues, and the one of presence
 * @param onProgress called with the counts so far after each page
 * @throws AdminError APP_NOT_FOUND, TOO_RECENT, DELIVERIES_HELD, REDIS_UNREACHABLE
 */
export async function pruneDevices(
  store: PruneStore,
  redis: { queues: RedisAddress; presence: RedisAddress },
  { app: id, notSeenSince: before, isDryRun }: Prune,
  onProgress: (counts: PrunedDevices) => void,
): Promise<PrunedDevices> {
  await requireApp(store, id);
  if (before.getTime() > store.clock.now() - LIMITS.pruneDaysMin * DAY_MS)
    throw new AdminError(
      'TOO_RECENT',
      `Only devices that were not seen for ${LIMITS.pruneDaysMin} days can be pruned.`,
    );
  await store.knownWebhooks.refreshIfStale();
  const presence = await connectPresence(redis.presence);
  const producers = createProducers(redis.queues, () => undefined);
  try {
    const { areOnline } = createPresenceReader(presence);
    const { checkCompletion } = producers;
    const counts = { deleted: 0, connected: 0, kept: 0 };
    let page: Partial<PrunedPage> = {};
    do {
      const app = await requireApp(store, id);
      page = await prunePage(
        { store, areOnline: orUnreachable(areOnline), checkCompletion },
        { app, before, after: page.next, isDryRun },
      );
      if (page.isHeld)
        throw new AdminError(
          'DELIVERIES_HELD',
          `The deliveries of app ${id} are held: it is paused, or its account suspended. Its devices can't be seen meanwhile.`,
        );
      for (const name of ['deleted', 'connected', 'kept'] as const) counts[name] += page[name] ?? 0;
      onProgress({ ...counts });
    } while (page.next !== undefined);
    return counts;
  } finally {
    await producers.close();
    presence.close();
  }
}

/** Nothing is deleted while it is unknown which devices are connected. */
function orUnreachable(areOnline: PruneResources['areOnline']): PruneResources['areOnline'] {
  return (tokens) =>
    areOnline(tokens).catch(() => {
      throw new AdminError('REDIS_UNREACHABLE', 'The Redis of presence does not respond.');
    });
}
