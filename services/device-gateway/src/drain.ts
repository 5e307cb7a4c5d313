import { setTimeout as sleep } from 'node:timers/promises';
import { createGroup } from '@carillon/core/group';
import type { Connection } from './connection.ts';
import { type InboxDeps, isNew, type Row, readInbox } from './read-inbox.ts';

const INBOXES_PER_GROUP = 64;
const RETRY_FIRST_MS = 500;
const RETRY_CAP_MS = 10_000;
const ROW_LOOK_MS = 5;

export interface DrainDeps extends Omit<InboxDeps, 'listRows'> {
  /** The rows of several devices, each device's oldest push first. */
  listRowsOf(tokens: readonly string[]): Promise<ReadonlyMap<string, Row[]>>;
  /** Whether MongoDB knows the device. */
  exists(token: string): Promise<boolean>;
  close(connection: Connection, reason: string): void;
}

/** Empties the inboxes of connections. */
export interface Draining {
  /** Reads the inbox (again), not before a moment of the monotonic clock; until it is empty nothing goes live. */
  drain(connection: Connection, notBefore?: number): void;
  /** Reads the inbox of a live connection, which stays live when nothing new is in it. */
  look(connection: Connection): Promise<void>;
}

export function createDraining(deps: DrainDeps): Draining {
  // A herd that reconnects reads a few dozen inboxes in a query, not ten thousand in as many.
  const listRows = createGroup<string, Row[]>(
    async (tokens) => {
      const rows = await deps.listRowsOf(tokens);
      return tokens.map((token) => rows.get(token) ?? []);
    },
    { maxItems: INBOXES_PER_GROUP, inFlight: 2 },
  );
  const inbox: InboxDeps = { ...deps, listRows };

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
        const foundSome = await readInbox(inbox, connection, seen);
        retryMs = RETRY_FIRST_MS;
        if (!foundSome) await untilRowsCame(connection, seen);
        // What was written between the reading and now is announced, or found by reading once more.
        if (!foundSome && !connection.isUnread && connection.isOpen()) connection.state = 'live';
      } catch {
        connection.readAfter = performance.now() + retryMs * (0.5 + Math.random());
        retryMs = Math.min(retryMs * 2, RETRY_CAP_MS);
      }
    }
    connection.isReading = false;
  }

  /** What comes live now would overtake the rows that workers are writing on our word (guarantee G5). */
  async function untilRowsCame(connection: Connection, seen: ReadonlySet<string>): Promise<void> {
    for (const push of seen) connection.rowsDue?.delete(push);
    while (connection.isOpen() && !connection.isUnread && connection.rowsDue?.size) {
      await sleep(ROW_LOOK_MS);
      for (const [push, dueBy] of connection.rowsDue) {
        if (performance.now() < dueBy) continue;
        // There by now, unless it gave way to a newer push of its collapse key.
        connection.rowsDue.delete(push);
        connection.isUnread = true;
      }
    }
  }

  /** A device that was let in while MongoDB was away is checked as soon as it answers. */
  async function verify(connection: Connection): Promise<void> {
    if (connection.isVerified) return;
    connection.isVerified = await deps.exists(connection.token);
    if (!connection.isVerified) deps.close(connection, 'unknown-device');
  }

  return {
    drain,
    async look(connection) {
      if (connection.state !== 'live' || connection.recording > 0) return;
      const rows = await listRows(connection.token);
      if (rows.some((row) => isNew(deps, connection, row, new Set()))) drain(connection);
    },
  };
}
