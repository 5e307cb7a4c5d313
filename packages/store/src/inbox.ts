import { createBatcher } from '@carillon/core/batcher';
import { processCounts } from '@carillon/core/process-counts';
import type { Collection, Db } from 'mongodb';
import { bulkWriteErrors } from './bulk-write.ts';
import type { InboxDocument } from './documents.ts';

/** A row to write: a push that is pending for a device. */
export interface PendingPush {
  token: string;
  push: string;
  work: string;
  position: number;
  /** Hash of the collapse key. */
  collapse?: string;
  sent: boolean;
  /** Events of the recipient are reported to webhooks. */
  notify?: true;
}

/** Returns the id of a push's row in a device's inbox. */
export function rowId({
  token,
  push,
  collapse,
}: Pick<PendingPush, 'token' | 'push' | 'collapse'>): string {
  return collapse === undefined ? `${token}:${push}` : `${token}:~${collapse}`;
}

/** Returns whether a row's id contains a collapse key, so that its push may change. */
export function isCollapseRowId(rowId: string): boolean {
  return rowId.includes(':~');
}

/** Maximum rows of a list that is written together with others. */
const SHORT_LIST_ROWS = 20;

/** Rows in a round trip: enough for the inboxes of some dozens of devices; the driver's default is 101. */
const ROWS_PER_READ = 2_000;

/** Returns the range of the ids of a device's rows. */
export function inboxRange(token: string): { $gte: string; $lt: string } {
  return { $gte: `${token}:`, $lt: `${token};` };
}

/** Inboxes: the pushes stored for a device until it acknowledges them. */
export function createInbox(db: Db) {
  const inbox = db.collection<InboxDocument>('inbox');

  /** Writes each list with a collapse key by itself, and all others by one insert. */
  async function enqueueAll(lists: PendingPush[][]): Promise<Set<string>[]> {
    const isCollapsing = (rows: PendingPush[]): boolean => rows[0]?.collapse !== undefined;
    const plainRows = lists.filter((rows) => !isCollapsing(rows)).flat();
    if (plainRows.length > 0) await insertPlain(inbox, plainRows);
    return Promise.all(
      lists.map((rows) => (isCollapsing(rows) ? insertCollapsing(inbox, rows) : new Set<string>())),
    );
  }
  const enqueueShort = createBatcher('write-inbox', enqueueAll, { maxBatchSize: 50 });
  const enqueueLong = createBatcher('write-inbox', enqueueAll, { maxBatchSize: 1, maxInFlight: 3 });

  async function listRowsByToken(tokens: readonly string[]): Promise<Map<string, InboxDocument[]>> {
    const ranges = tokens.map((token) => ({ _id: inboxRange(token) }));
    const rows = await inbox.find({ $or: ranges }, { batchSize: ROWS_PER_READ }).toArray();
    const byToken = Map.groupBy(rows, parseToken);
    for (const deviceRows of byToken.values())
      deviceRows.sort((a, b) => (a.push < b.push ? -1 : 1));
    return byToken;
  }

  return {
    /**
     * Writes rows of one push; returns the tokens that have a newer push of the collapse key. Short lists share round
     * trips; of long lists only a few are in flight at once, because each takes megabytes of memory.
     */
    async enqueue(rows: PendingPush[]): Promise<Set<string>> {
      if (rows.length === 0) return new Set();
      return rows.length > SHORT_LIST_ROWS ? enqueueLong(rows) : enqueueShort(rows);
    },

    /** Lists a device's rows, oldest push first. */
    listRows: async (token: string): Promise<InboxDocument[]> =>
      (await listRowsByToken([token])).get(token) ?? [],

    /**
     * Lists the rows of some dozens of devices in one query, each device's oldest push first; empty inboxes are left
     * out.
     */
    listRowsByToken,

    /** Returns those of these devices whose inbox has the push. */
    async filterPending(
      push: { _id: string; collapse?: string },
      tokens: readonly string[],
    ): Promise<Set<string>> {
      const { _id, collapse } = push;
      const ids = tokens.map((token) =>
        rowId({ token, push: _id, ...(collapse !== undefined && { collapse }) }),
      );
      const rows = await inbox
        .find(
          { _id: { $in: ids }, push: _id },
          { projection: { _id: 1 }, batchSize: ids.length + 1 },
        )
        .toArray();
      return new Set(rows.map(parseToken));
    },

    /**
     * Removes rows of one push whose recipients have an outcome in the batch, or a newer push of the collapse key.
     * Returns how many there were.
     */
    async remove(push: string, rowIds: readonly string[]): Promise<number> {
      if (rowIds.length === 0) return 0;
      return (await inbox.deleteMany({ _id: { $in: [...rowIds] }, push })).deletedCount;
    },

    /** Lists the tokens of devices whose inbox has the push, in order. */
    listPendingTokens: (push: string, limit: number): Promise<string[]> =>
      inbox
        .find({ push }, { projection: { _id: 1 } })
        .sort({ _id: 1 })
        .limit(limit)
        .map(parseToken)
        .toArray(),

    /** Counts the pushes in a device's inbox. */
    count: (token: string): Promise<number> =>
      inbox.countDocuments({ _id: { $gte: `${token}:`, $lt: `${token};` } }),

    /** Returns whether the push is in any inbox. */
    hasPending: async (push: string): Promise<boolean> =>
      (await inbox.findOne({ push }, { projection: { _id: 1 } })) !== null,
  };
}

type Inbox = Collection<InboxDocument>;

/** Inserts rows without a collapse key; a row that exists already stays, because a batch may be tried twice. */
async function insertPlain(inbox: Inbox, rows: PendingPush[]): Promise<void> {
  const errors = await bulkWriteErrors(
    inbox,
    rows.map((row) => ({ insertOne: { document: toDocument(row) } })),
  );
  processCounts.inboxRowsWritten += rows.length - errors.size;
  for (const { duplicate, error } of errors.values()) if (!duplicate) throw error;
}

/** Upserts rows with a collapse key: the newest push wins (guarantee G9). Returns the tokens that have a newer one. */
async function insertCollapsing(inbox: Inbox, rows: PendingPush[]): Promise<Set<string>> {
  const errors = await bulkWriteErrors(
    inbox,
    rows.map((row) => {
      const { _id, ...document } = toDocument(row);
      return {
        updateOne: {
          filter: { _id, push: { $lt: row.push } },
          update: { $set: document, ...unsetAbsent(row) },
          upsert: true,
        },
      };
    }),
  );
  processCounts.inboxRowsWritten += rows.length - errors.size;
  const superseded = new Set<string>();
  const rejected: PendingPush[] = [];
  for (const [index, { duplicate, error }] of errors) {
    if (!duplicate) throw error;
    rejected.push(rows[index] as PendingPush);
  }
  if (rejected.length === 0) return superseded;
  // The existing row is this push's already (the batch was tried twice), or a newer push's.
  const present = await inbox
    .find(
      { _id: { $in: rejected.map(rowId) } },
      { projection: { push: 1 }, batchSize: rejected.length + 1 },
    )
    .toArray();
  const pushByRowId = new Map(present.map((row) => [row._id, row.push]));
  for (const row of rejected)
    if ((pushByRowId.get(rowId(row)) ?? '') > row.push) superseded.add(row.token);
  return superseded;
}

/** Builds the removal of fields that an older push of the collapse key may have set. */
function unsetAbsent({ sent, notify }: PendingPush): { $unset?: Record<string, true> } {
  const absent = {
    ...(!sent && { sent: true as const }),
    ...(!notify && { notify: true as const }),
  };
  return Object.keys(absent).length === 0 ? {} : { $unset: absent };
}

function parseToken({ _id }: Pick<InboxDocument, '_id'>): string {
  return _id.slice(0, _id.indexOf(':'));
}

function toDocument(row: PendingPush): InboxDocument {
  return {
    _id: rowId(row),
    push: row.push,
    work: row.work,
    position: row.position,
    ...(row.sent && { sent: true }),
    ...(row.notify && { notify: true }),
  };
}
