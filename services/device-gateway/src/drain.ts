import { setTimeout as sleep } from 'node:timers/promises';
import { createGroup } from '@carillon/core/group';
import { type Connection, type Owed, WINDOW } from './connection.ts';
import { encodePublish } from './publish-packet.ts';

/** A push's state must not be older than this when it is sent (guarantee G8). */
const STATE_FRESH_MS = 500;
const STATE_READS = 3;
const INBOXES_PER_GROUP = 32;
const RETRY_FIRST_MS = 500;
const RETRY_CAP_MS = 10_000;

interface Row {
  _id: string;
  push: string;
  work: string;
  position: number;
  sent?: boolean;
}

interface SendablePush {
  state: 'accepting' | 'scheduled' | 'open' | 'finished' | 'deleted' | 'abandoned';
  sendUntil: Date;
  data: string;
  collapse?: string;
}

export interface DrainDeps {
  /** A device's rows, oldest push first. */
  listRows(token: string): Promise<Row[]>;
  /** Removes a row that a newer push has made void. */
  removeRow(push: string, rowId: string): Promise<void>;
  readForSending(pushes: readonly string[]): Promise<Map<string, SendablePush>>;
  isSendable(push: SendablePush): boolean;
  /** Whether MongoDB knows the device. */
  exists(token: string): Promise<boolean>;
  record(connection: Connection, owed: Owed): void;
  close(connection: Connection, reason: string): void;
  sent(): void;
}

/** Empties the inboxes of connections. */
export interface Draining {
  /** Reads the inbox (again), not before a moment of the monotonic clock; until it is empty nothing goes live. */
  drain(connection: Connection, notBefore?: number): void;
  /** Reads the inbox of a live connection, which stays live when nothing new is in it. */
  look(connection: Connection): Promise<void>;
}

export function createDraining(deps: DrainDeps): Draining {
  // A herd that reconnects reads a few dozen inboxes at a time, not ten thousand.
  const listRows = createGroup<string, Row[]>(
    (tokens) => Promise.all(tokens.map((token) => deps.listRows(token))),
    { maxItems: INBOXES_PER_GROUP, inFlight: 2 },
  );

  function drain(connection: Connection, notBefore = 0): void {
    if (!connection.isOpen()) return;
    connection.state = 'draining';
    connection.isUnread = true;
    connection.readAfter = Math.max(connection.readAfter, notBefore);
    if (!connection.isReading) void empty(connection);
  }

  async function empty(connection: Connection): Promise<void> {
    connection.isReading = true;
    const seen = new Set<string>();
    let retryMs = RETRY_FIRST_MS;
    while (connection.isOpen() && (connection.isUnread || connection.state === 'draining')) {
      const waitMs = connection.readAfter - performance.now();
      if (waitMs > 0) await sleep(waitMs);
      connection.isUnread = false;
      try {
        await verify(connection);
        const foundSome = await readOnce(connection, seen);
        retryMs = RETRY_FIRST_MS;
        // What was written between the reading and now is announced, or found by reading once more.
        if (!foundSome && !connection.isUnread && connection.isOpen()) connection.state = 'live';
      } catch {
        connection.readAfter = performance.now() + retryMs * (0.5 + Math.random());
        retryMs = Math.min(retryMs * 2, RETRY_CAP_MS);
      }
    }
    connection.isReading = false;
  }

  /** A device that was let in while MongoDB was away is checked as soon as it answers. */
  async function verify(connection: Connection): Promise<void> {
    if (connection.isVerified) return;
    connection.isVerified = await deps.exists(connection.token);
    if (!connection.isVerified) deps.close(connection, 'unknown-device');
  }

  /** Reads the inbox and sends what is new in it. */
  async function readOnce(connection: Connection, seen: Set<string>): Promise<boolean> {
    // Rows whose receipts are on their way would look as if they were still owed. And with a full window
    // the first live delivery would be refused.
    await until(connection, () => connection.recording === 0 && hasRoom(connection));
    const rows = (await listRows(connection.token)).filter((row) => isNew(connection, row, seen));
    for (let next = 0; next < rows.length; ) {
      await until(connection, () => hasRoom(connection));
      if (!connection.isOpen()) return false;
      const room = WINDOW - connection.inFlight.length;
      const some = rows.slice(next, next + room);
      await sendRows(connection, some, seen);
      next += some.length;
    }
    return rows.length > 0;
  }

  /** Whether a row is to be sent; what this connection knows already is settled from memory. */
  function isNew(connection: Connection, row: Row, seen: Set<string>): boolean {
    if (seen.has(row.push)) return false;
    const sent = connection.findInFlight(row.push);
    if (sent !== undefined) sent.toRecord = true;
    else if (connection.hasAcknowledged(row.push)) deps.record(connection, owedBy(row));
    else return true;
    return false;
  }

  async function sendRows(connection: Connection, rows: Row[], seen: Set<string>): Promise<void> {
    const pushes = await readFresh(rows.map((row) => row.push));
    for (const row of rows) {
      // Handed over live on an answer that was given before this connection began to drain.
      if (!connection.isOpen() || !isNew(connection, row, seen)) continue;
      seen.add(row.push);
      const push = pushes.get(row.push);
      // Deleted and expired rows are removed by whoever ends the push.
      if (push === undefined || !deps.isSendable(push)) continue;
      if (connection.hasNewer(push.collapse, row.push)) {
        await deps.removeRow(row.push, row._id);
        continue;
      }
      const sent = connection.send(encodePublish(row.push, push.data), {
        ...owedBy(row),
        ...(push.collapse !== undefined && { collapse: push.collapse }),
        dup: row.sent ?? false,
      });
      sent.toRecord = true;
      deps.sent();
    }
  }

  async function readFresh(ids: string[]): Promise<Map<string, SendablePush>> {
    for (let read = 0; read < STATE_READS; read += 1) {
      const startedAt = performance.now();
      const pushes = await deps.readForSending(ids);
      if (performance.now() - startedAt < STATE_FRESH_MS) return pushes;
    }
    throw new Error('the state of pushes comes too late to send by it');
  }

  return {
    drain,
    async look(connection) {
      if (connection.state !== 'live' || connection.recording > 0) return;
      const rows = await listRows(connection.token);
      if (rows.some((row) => isNew(connection, row, new Set()))) drain(connection);
    },
  };
}

function owedBy(row: Row): Owed {
  return { push: row.push, work: row.work, position: row.position, rowId: row._id };
}

function hasRoom(connection: Connection): boolean {
  return connection.inFlight.length <= WINDOW / 2;
}

/** Waits for a condition that changes with PUBACKs, recorded receipts and the close. */
async function until(connection: Connection, isMet: () => boolean): Promise<void> {
  while (connection.isOpen() && !isMet()) {
    await new Promise<void>((resolve) => {
      connection.wake = resolve;
    });
  }
}
