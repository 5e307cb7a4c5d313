import { setTimeout as sleep } from 'node:timers/promises';
import { isChangedByConnect } from '@carillon/store/device-ways';
import { hasCredentials } from '@carillon/store/devices';
import type { Store } from '@carillon/store/store';
import type { Connection } from './connection.ts';
import type { Connections } from './connections.ts';
import type { IosAppRecorder } from './device-activity.ts';
import type { InboxReader } from './read-inbox.ts';

/** Delay of the first retry of a failed read. */
const INITIAL_RETRY_MS = 500;
/** Maximum delay of a retry of a failed read. */
const MAX_RETRY_MS = 10_000;
/** Interval at which rows that have no notice are found to be overdue. */
const OVERDUE_CHECK_MS = 250;
/** Time within which a receipt is usually recorded in MongoDB. */
const RECEIPT_RECORDED_MS = 1_000;

export type InboxReplay = ReturnType<typeof createInboxReplay>;

/** Sends the pushes that are stored in the inboxes of connected devices. */
export function createInboxReplay(context: {
  reader: InboxReader;
  connections: Connections;
  devices: Pick<Store['devices'], 'findForConnect' | 'markConnected'>;
  iosApps: IosAppRecorder;
}) {
  const { reader, connections, devices, iosApps } = context;

  /** Reads the inbox (again); no push goes live until it is empty. */
  function replay(connection: Connection): void {
    if (!connection.isOpen()) return;
    connection.requestSync();
    if (connection.tryStartReplay()) void replayUntilEmpty(connection);
  }

  async function replayUntilEmpty(connection: Connection): Promise<void> {
    const seen = new Set<string>();
    let retryMs = INITIAL_RETRY_MS;
    while (connection.state === 'syncing') {
      connection.startRead();
      try {
        await verifyDevice(connection);
        const foundNewRows = await reader.read(connection, seen);
        retryMs = INITIAL_RETRY_MS;
        if (foundNewRows) continue;
      } catch {
        await sleep(retryMs * (0.5 + Math.random()));
        retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
        continue;
      }
      await waitForAwaitedRows(connection);
      // A row that was written since the read is announced, and the inbox is read once more.
      connection.completeSync();
    }
    connection.endReplay();
  }

  /** Waits until a row is announced or overdue, if pushes were left to the inbox: a live push must not overtake them. */
  async function waitForAwaitedRows(connection: Connection): Promise<void> {
    const timer = setInterval(() => connection.expireAwaitedRows(), OVERDUE_CHECK_MS);
    await connection.waitUntil(() => !connection.isAwaitingRows());
    clearInterval(timer);
  }

  /** Checks a device that was accepted while MongoDB was unreachable. */
  async function verifyDevice(connection: Connection): Promise<void> {
    if (connection.isVerified()) return;
    if (await deviceExists(connection.token)) connection.markVerified();
    else connections.close(connection, 'unknown-device');
  }

  async function deviceExists(token: string): Promise<boolean> {
    const device = await devices.findForConnect(token);
    iosApps.record(device);
    if (!hasCredentials(device)) return false;
    if (isChangedByConnect(device)) await devices.markConnected(token).catch(() => undefined);
    const connection = connections.find(token);
    connection?.setExpiry(device.expiresAt);
    if (connection !== undefined) connections.assignApp(connection, device.app);
    return true;
  }

  return {
    replay,
    /** Replays the inbox of a live connection if it has new rows; the connection stays live otherwise. */
    async checkInbox(connection: Connection): Promise<void> {
      if (connection.state !== 'live') return;
      // Rows whose receipts are being recorded would appear unacknowledged.
      if (connection.hasPendingReceipts()) return connection.recheckInboxIn(RECEIPT_RECORDED_MS);
      // The notice of a deletion is lost when Redis is unreachable.
      if (!(await deviceExists(connection.token)))
        return connections.close(connection, 'unknown-device');
      if (await reader.hasNewRows(connection)) replay(connection);
    },
    /**
     * Makes the reaper check the inbox, until MongoDB has been read; the inbox of a syncing connection is read once more.
     */
    recheck(connection: Connection): void {
      if (connection.state === 'syncing') replay(connection);
      else connection.recheckInboxIn(0);
    },
  };
}
