import { createGroup } from '@carillon/core/group';
import type { Collection, Db } from 'mongodb';
import type { InboxDocument } from './documents.ts';
import { bulkErrors } from './inserting.ts';

/** A row to write: a push that a device is owed. */
export interface OwedPush {
  token: string;
  push: string;
  work: string;
  position: number;
  /** Hash of the collapse key. */
  collapse?: string;
  sent: boolean;
}

/** The id of the row that owes a push to a device. */
export function rowId({
  token,
  push,
  collapse,
}: Pick<OwedPush, 'token' | 'push' | 'collapse'>): string {
  return collapse === undefined ? `${token}:${push}` : `${token}:~${collapse}`;
}

/** Whether a row's id names a collapse key, so that its push may change. */
export function namesCollapseKey(rowId: string): boolean {
  return rowId.includes(':~');
}

/** Rows up to which a list is written together with others. */
const SHORT_LIST = 20;

/** Enough for most crowds of inboxes in one round trip; the driver's default is 101. */
const ROWS_PER_READ = 2_000;

/** What devices are owed until they prove that they have it. */
export function createInbox(db: Db) {
  const inbox = db.collection<InboxDocument>('inbox');

  /** Lists with a collapse key decide for themselves, all others go into one insert. */
  async function oweAll(lists: OwedPush[][]): Promise<Set<string>[]> {
    const isCollapsing = (rows: OwedPush[]): boolean => rows[0]?.collapse !== undefined;
    const plain = lists.filter((rows) => !isCollapsing(rows)).flat();
    if (plain.length > 0) await insertPlain(inbox, plain);
    return Promise.all(
      lists.map((rows) => (isCollapsing(rows) ? insertCollapsing(inbox, rows) : new Set<string>())),
    );
  }
  const oweShort = createGroup(oweAll, { maxItems: 50 });
  const oweLong = createGroup(oweAll, { maxItems: 1, inFlight: 3 });

  async function listRowsOf(tokens: readonly string[]): Promise<Map<string, InboxDocument[]>> {
    const ranges = tokens.map((token) => ({ _id: { $gte: `${token}:`, $lt: `${token};` } }));
    const rows = await inbox.find({ $or: ranges }, { batchSize: ROWS_PER_READ }).toArray();
    const byToken = Map.groupBy(rows, tokenOf);
    for (const some of byToken.values()) some.sort((a, b) => (a.push < b.push ? -1 : 1));
    return byToken;
  }

  return {
    /**
     * Writes rows of one push; returns the tokens for which a newer push of the collapse key is there. Short lists
     * share round trips; of long ones only a few are under way at once, for each takes megabytes on its way.
     */
    async owe(rows: OwedPush[]): Promise<Set<string>> {
      if (rows.length === 0) return new Set();
      return rows.length > SHORT_LIST ? oweLong(rows) : oweShort(rows);
    },

    /** A device's rows, oldest push first. */
    listRows: async (token: string): Promise<InboxDocument[]> =>
      (await listRowsOf([token])).get(token) ?? [],

    /** The rows of some dozens of devices in one query, each device's oldest push first; none for an empty inbox. */
    listRowsOf,

    /** The devices among these that a push is still owed to. */
    async owedAmong(
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
      return new Set(rows.map(tokenOf));
    },

    /** Removes rows of one push, for instance of recipients whose receipt came meanwhile. */
    async remove(push: string, rowIds: readonly string[]): Promise<void> {
      if (rowIds.length > 0) await inbox.deleteMany({ _id: { $in: [...rowIds] }, push });
    },

    /** Tokens that a push is still owed to, in order. */
    owedTo: (push: string, limit: number): Promise<string[]> =>
      inbox
        .find({ push }, { projection: { _id: 1 } })
        .sort({ _id: 1 })
        .limit(limit)
        .map(tokenOf)
        .toArray(),

    /** Whether anybody is still owed this push. */
    isOwed: async (push: string): Promise<boolean> =>
      (await inbox.findOne({ push }, { projection: { _id: 1 } })) !== null,
  };
}

type Inbox = Collection<InboxDocument>;

/** Rows without a collapse key: written once, however often a batch is worked. */
async function insertPlain(inbox: Inbox, rows: OwedPush[]): Promise<void> {
  const errors = await bulkErrors(
    inbox,
    rows.map((row) => ({ insertOne: { document: toDocument(row) } })),
  );
  for (const { duplicate, error } of errors.values()) if (!duplicate) throw error;
}

/** Rows with a collapse key: the newest push wins (guarantee G9). Returns the tokens that have a newer one. */
async function insertCollapsing(inbox: Inbox, rows: OwedPush[]): Promise<Set<string>> {
  const errors = await bulkErrors(
    inbox,
    rows.map((row) => {
      const { _id, ...document } = toDocument(row);
      return {
        updateOne: {
          filter: { _id, push: { $lt: row.push } },
          update: { $set: document, ...(row.sent ? {} : { $unset: { sent: true } }) },
          upsert: true,
        },
      };
    }),
  );
  const lost = new Set<string>();
  const refused: OwedPush[] = [];
  for (const [index, { duplicate, error }] of errors) {
    if (!duplicate) throw error;
    refused.push(rows[index] as OwedPush);
  }
  if (refused.length === 0) return lost;
  // The row in place is ours already (work done twice), or a newer push's.
  const there = await inbox
    .find(
      { _id: { $in: refused.map(rowId) } },
      { projection: { push: 1 }, batchSize: refused.length + 1 },
    )
    .toArray();
  const pushOf = new Map(there.map((row) => [row._id, row.push]));
  for (const row of refused) if ((pushOf.get(rowId(row)) ?? '') > row.push) lost.add(row.token);
  return lost;
}

function tokenOf({ _id }: Pick<InboxDocument, '_id'>): string {
  return _id.slice(0, _id.indexOf(':'));
}

function toDocument(row: OwedPush): InboxDocument {
  return {
    _id: rowId(row),
    push: row.push,
    work: row.work,
    position: row.position,
    ...(row.sent && { sent: true }),
  };
}
