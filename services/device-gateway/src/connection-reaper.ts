import { startInterval } from '@carillon/core/intervals';
import type { AppLoad, AppShares } from './app-shares.ts';
import type { Connection } from './connection.ts';
import type { Connections } from './connections.ts';
import type { InboxReplay } from './inbox-replay.ts';

/** Interval between two checks of the connections. */
const INTERVAL_MS = 1_000;
/** Maximum wait for a PUBACK, and for a full socket to accept bytes; then the connection counts as dead. */
const PROGRESS_TIMEOUT_MS = 30_000;

/**
 * Closes dead connections, runs due inbox checks and measures buffered bytes, with one timer for all connections.
 *
 * @param context.maxWaitingBytes bytes buffered in all sockets together above which each app is limited to its share
 */
export function startConnectionReaper(context: {
  connections: Connections;
  shares: AppShares;
  inboxReplay: Pick<InboxReplay, 'checkInbox'>;
  maxWaitingBytes: number;
}) {
  const { connections, shares, inboxReplay, maxWaitingBytes } = context;
  let isOverloaded = false;

  function reap(): void {
    const now = performance.now();
    for (const app of shares.all()) app.waitingBytes = 0;
    for (const connection of connections.all()) {
      const reason = closeReasonFor(connection, now);
      if (reason !== undefined) {
        connections.close(connection, reason);
        continue;
      }
      connection.resetControlPackets();
      connection.forgetOld(now);
      checkInboxIfDue(connection, now);
      connection.app.waitingBytes += connection.transport.writableLength;
    }
    isOverloaded = throttleApps([...shares.all()]);
  }

  /**
   * Throttles the apps above their share of the buffered bytes when the total is too high: nothing live is written for
   * them, their inboxes are still read. At twice the limit their connections are closed, which loses no push.
   *
   * @returns whether every app is throttled
   */
  function throttleApps(apps: readonly AppLoad[]): boolean {
    const total = apps.reduce((sum, { waitingBytes }) => sum + waitingBytes, 0);
    const share = maxWaitingBytes / apps.filter(({ waitingBytes }) => waitingBytes > 0).length;
    for (const app of apps) app.isThrottled = total > maxWaitingBytes && app.waitingBytes > share;
    if (total > 2 * maxWaitingBytes) closeOverShare(share);
    return apps.length > 0 && apps.every(({ isThrottled }) => isThrottled);
  }

  function closeOverShare(share: number): void {
    for (const connection of connections.all()) {
      const { app, transport } = connection;
      if (!app.isThrottled || app.waitingBytes <= share || transport.writableLength === 0) continue;
      app.waitingBytes -= transport.writableLength;
      connections.close(connection, 'over-share');
    }
  }

  function checkInboxIfDue(connection: Connection, now: number): void {
    if (!connection.tryStartRecheck(now)) return;
    void inboxReplay
      .checkInbox(connection)
      .catch(() => connection.recheckInboxAt(now + INTERVAL_MS));
  }

  const stopReaping = startInterval(reap, INTERVAL_MS);
  return {
    /** Checks whether every app with connections is throttled. */
    isOverloaded: (): boolean => isOverloaded,
    stop: stopReaping,
  };
}

/**
 * Returns the reason why a connection is closed now.
 *
 * @returns undefined if it stays open
 */
function closeReasonFor(connection: Connection, now: number): string | undefined {
  if (connection.isSilent(now)) return 'silent';
  const oldest = connection.inFlight[0];
  if (oldest !== undefined && now - oldest.sentAt > PROGRESS_TIMEOUT_MS) return 'unacknowledged';
  return connection.measureWriteBlockedMs(now) > PROGRESS_TIMEOUT_MS ? 'stuck' : undefined;
}
