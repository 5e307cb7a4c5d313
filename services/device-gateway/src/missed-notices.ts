import { startInterval } from '@carillon/core/intervals';
import type { PresenceReports } from '@carillon/store/presence-reports';
import type { Store } from '@carillon/store/store';

const READ_INTERVAL_MS = 5_000;

/** The gateway's shards of presence, and its devices in them. */
interface Presence {
  /** List of servers by which this gateway registers devices. */
  list: string;
  /** Checks the inboxes of the devices in a shard, or of all devices, spread over some seconds. */
  checkInboxes(shard?: string): void;
}

/**
 * Checks the inboxes of devices whose rows workers could write, but not announce: those in a shard of presence that a
 * worker can't reach, and all devices while a worker looks them up with another list of servers. Such a worker finds
 * some of them offline, and a change of the list is rolled out process by process.
 */
export function startMissedNotices(
  { presenceReports }: Pick<Store, 'presenceReports'>,
  presence: Presence,
  onError: (error: unknown) => void,
): { stop(): void } {
  let known: PresenceReports | undefined;

  async function read(): Promise<void> {
    const found = await presenceReports.read();
    const before = known;
    known = found;
    // Once more after the last worker with another list has ended.
    if ([found, before].some((one) => one?.lists.some((list) => list !== presence.list))) {
      presence.checkInboxes();
      return;
    }
    for (const [shard, count] of found.missed)
      if (before !== undefined && before.missed.get(shard) !== count) presence.checkInboxes(shard);
  }

  const stopReading = startInterval(() => void read().catch(onError), READ_INTERVAL_MS);
  void read().catch(onError);
  return { stop: stopReading };
}
