import { type Connection, type Owed, WINDOW } from './connection.ts';
import { encodePublish } from './publish-packet.ts';

/** A push's state must not be older than this when it is sent (guarantee G8). */
const STATE_FRESH_MS = 500;
const STATE_READS = 3;

export interface Row {
  _id: string;
  push: string;
  work: string;
  position: number;
  sent?: boolean;
}

export interface SendablePush {
  state: 'accepting' | 'scheduled' | 'open' | 'finished' | 'deleted' | 'abandoned';
  sendUntil: Date;
  data: string;
  collapse?: string;
}

export interface InboxDeps {
  /** A device's rows, oldest push first. */
  listRows(token: string): Promise<Row[]>;
  /** Removes a row that a newer push has made void. */
  removeRow(push: string, rowId: string): Promise<void>;
  readForSending(pushes: readonly string[]): Promise<Map<string, SendablePush>>;
  isSendable(push: SendablePush): boolean;
  record(connection: Connection, owed: Owed): void;
  sent(): void;
}

/**
 * Reads the inbox and sends what is new in it, a window at a time.
 *
 * @param seen pushes that were sent or left out since the connection began to drain
 * @returns whether there was anything new
 * @throws when MongoDB fails
 */
export async function readInbox(
  deps: InboxDeps,
  connection: Connection,
  seen: Set<string>,
): Promise<boolean> {
  // Rows whose receipts are on their way would look as if they were still owed. And with a full window
  // the first live delivery would be refused.
  await until(connection, () => connection.recording === 0 && hasRoom(connection));
  const rows = (await deps.listRows(connection.token)).filter((row) =>
    isNew(deps, connection, row, seen),
  );
  for (let next = 0; next < rows.length; ) {
    await until(connection, () => hasRoom(connection));
    if (!connection.isOpen()) return false;
    const room = WINDOW - connection.inFlight.length;
    const some = rows.slice(next, next + room);
    await sendRows(deps, connection, some, seen);
    next += some.length;
  }
  return rows.length > 0;
}

/** Whether a row is to be sent; what this connection knows already is settled from memory. */
export function isNew(
  deps: Pick<InboxDeps, 'record'>,
  connection: Connection,
  row: Row,
  seen: ReadonlySet<string>,
): boolean {
  if (seen.has(row.push)) return false;
  const sent = connection.findInFlight(row.push);
  if (sent !== undefined) sent.toRecord = true;
  else if (connection.hasAcknowledged(row.push)) deps.record(connection, owedBy(row));
  else return true;
  return false;
}

async function sendRows(
  deps: InboxDeps,
  connection: Connection,
  rows: Row[],
  seen: Set<string>,
): Promise<void> {
  const pushes = await readFresh(
    deps,
    rows.map((row) => row.push),
  );
  for (const row of rows) {
    // Handed over live on an answer that was given before this connection began to drain.
    if (!connection.isOpen() || !isNew(deps, connection, row, seen)) continue;
    seen.add(row.push);
    const push = pushes.get(row.push);
    // Deleted and expired rows are removed by whoever ends the push.
    if (push === undefined || !deps.isSendable(push)) continue;
    if (connection.hasNewer(push.collapse, row.push)) {
      await deps.removeRow(row.push, row._id);
      continue;
    }
    const packet = encodePublish(row.push, push.data);
    const sent = connection.send(packet, owedBy(row), push.collapse, row.sent);
    sent.toRecord = true;
    deps.sent();
  }
}

async function readFresh(deps: InboxDeps, ids: string[]): Promise<Map<string, SendablePush>> {
  for (let read = 0; read < STATE_READS; read += 1) {
    const startedAt = performance.now();
    const pushes = await deps.readForSending(ids);
    if (performance.now() - startedAt < STATE_FRESH_MS) return pushes;
  }
  throw new Error('the state of pushes comes too late to send by it');
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
