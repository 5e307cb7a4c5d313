import type { Producers } from '@carillon/queue/producers';
import { clearDevice } from '@carillon/store/delete-device';
import type { OpenPushCursor } from '@carillon/store/retention';
import type { Store } from '@carillon/store/store';
import type { WebhookStore } from '@carillon/webhooks/webhook-store';

/** Maximum items of each kind processed in one tick. */
const ITEMS_PER_TICK = 100;
/** Time in one tick for each kind of removal that keeps up with any rate: pushes past their retention, devices that have ended. */
const REMOVAL_BUDGET_MS = 2_000;
/** Maximum open pushes checked in one tick. */
const OPEN_PUSHES_PER_TICK = 200;
/** Maximum batches checked in one tick for a push that is gone. */
const BATCHES_PER_TICK = 1_000;
/** Maximum re-drives whose job is added in one tick: an app has one at a time. */
const REDRIVES_PER_TICK = 1_000;

/** Items cleaned in one tick, by kind. */
export interface CleanResult {
  abandoned: number;
  purged: number;
  recounted: number;
  emptied: number;
  formers: number;
  expired: number;
  cleared: number;
  orphans: number;
}

/**
 * Creates the cleaning tick: abandons pushes that were never accepted, removes pushes past their retention, recounts
 * topics whose change was interrupted, deletes old former devices and those that have ended, clears deleted and former ones. It adds the job of each
 * running re-drive, which Redis ignores while there is one. It cycles through all open pushes, so that a completion
 * whose job was lost is found, through all batches for those whose push is gone, and through the devices to clear.
 */
export function createClean(
  store: Store,
  { outbox }: Pick<WebhookStore, 'outbox'>,
  producers: Producers,
): () => Promise<CleanResult> {
  const { retention, topics, inboxQuota, deletedDevices, redrives, clock } = store;
  let lastOpenPush: OpenPushCursor | undefined;
  let lastBatchId = '';
  let lastUncleared = '';

  async function checkOpenPushes(): Promise<void> {
    const openPushes = await retention.listOpenAfter(lastOpenPush, OPEN_PUSHES_PER_TICK);
    lastOpenPush = openPushes.length < OPEN_PUSHES_PER_TICK ? undefined : openPushes.at(-1);
    await producers.checkCompletion(openPushes.map(({ id }) => id));
  }

  async function addRedriveJobs(): Promise<void> {
    const running = await redrives.listRunning(REDRIVES_PER_TICK);
    await Promise.all(running.map((redrive) => producers.redrive(redrive)));
  }

  async function removeNextOrphans(): Promise<number> {
    const { removed, last } = await retention.removeOrphans(lastBatchId, BATCHES_PER_TICK);
    lastBatchId = last;
    return removed;
  }

  /** Deletes devices that have ended. All deleted ones are cleared before the next page: they must not pile up. */
  async function endDevices(): Promise<Pick<CleanResult, 'expired' | 'cleared'>> {
    let cleared = 0;
    const expired = await removeByPages(async () => {
      const deleted = await deletedDevices.deleteExpired(clock.now(), ITEMS_PER_TICK);
      cleared += await clearDevices();
      return deleted;
    });
    return { expired, cleared };
  }

  /** Lists those after the last one, and goes on with the first ones. */
  async function listNextUncleared(): Promise<{ app: string; token: string }[]> {
    const next = await deletedDevices.listUncleared(lastUncleared, ITEMS_PER_TICK);
    const room = ITEMS_PER_TICK - next.length;
    if (room === 0 || lastUncleared === '') return next;
    const first = await deletedDevices.listUncleared('', room);
    return [...next, ...first.filter(({ token }) => token <= lastUncleared)];
  }

  async function clearDevices(): Promise<number> {
    const devices = await listNextUncleared();
    lastUncleared = devices.at(-1)?.token ?? '';
    for (const { app, token } of devices) await clearDevice(store, producers, app, token);
    return devices.length;
  }

  return async () => {
    await addRedriveJobs();
    await checkOpenPushes();
    return {
      abandoned: await retention.abandonStale(),
      purged: await removeByPages(() => retention.purge(ITEMS_PER_TICK, outbox.keepUnreported)),
      emptied: await inboxQuota.clearBelowQuota(ITEMS_PER_TICK),
      formers: await deletedDevices.deleteOldFormers(clock.now(), ITEMS_PER_TICK),
      ...(await endDevices()),
      orphans: await removeNextOrphans(),
      // Last, because it may fail in each tick: the count of a topic with millions of subscribers takes longer than the timeout.
      recounted: await topics.recountInterrupted(ITEMS_PER_TICK),
    };
  };
}

/**
 * Removes page after page, until one is not full or the time for it ends.
 *
 * @param removePage returns how many of at most {@link ITEMS_PER_TICK} it has found
 */
async function removeByPages(removePage: () => Promise<number>): Promise<number> {
  const deadline = performance.now() + REMOVAL_BUDGET_MS;
  let removed = 0;
  let removedLast = ITEMS_PER_TICK;
  while (removedLast === ITEMS_PER_TICK && performance.now() < deadline) {
    removedLast = await removePage();
    removed += removedLast;
  }
  return removed;
}
