import { hashToken } from '@carillon/core/batch';
import { fallbackBatchId, isBatchId, pushIdOfBatch } from '@carillon/core/ids';
import { OUTCOMES } from '@carillon/core/outcomes';
import type {
  BatchDocument,
  InboxDocument,
  PushDocument,
  RecipientStatus,
} from '@carillon/store/documents';
import { rowId } from '@carillon/store/inbox';
import { DEVICE_INDEX } from '@carillon/store/migrate';
import { OUTCOME_PROJECTION, outcomeCodes, statusAt } from '@carillon/store/recipient-status';
import { markSuperseded } from '@carillon/store/superseded';
import type { Collection, Db } from 'mongodb';
import { keptPushes, REPORTED_LIST_FIELDS, type ReportedListPush } from './push-outcomes.ts';
import { describeTried, type RecipientBatch, type TriedRecipient } from './recipients.ts';

/** A page of the pushes to a device. */
export interface DevicePushQuery {
  app: string;
  token: string;
  /** Only pushes older than this id. */
  before: string;
  limit: number;
}

/** A push to a device, and what became of it there. */
export interface DevicePush {
  push: ReportedListPush;
  recipient: TriedRecipient;
  /** The same for operators, who tell an inbox from a batch that waits. */
  status: RecipientStatus;
}

interface Tables {
  pushes: Collection<PushDocument>;
  batches: Collection<BatchDocument>;
  inbox: Collection<InboxDocument>;
}

type Head = ReportedListPush & Pick<PushDocument, 'collapse'>;
/** The part of a holder that concerns one recipient; an embedded batch comes with its push. */
type Found = Omit<RecipientBatch, 'id'> & { _id: string };

/** The fields of a batch that tell the outcome of one recipient: not the tokens, which are most of it. */
const BATCH_FIELDS = {
  ...OUTCOME_PROJECTION,
  'work.state': 1,
  'work.channel': 1,
  'work.at': 1,
  'work.claim': 1,
  'work.tries': 1,
  'work.fallback': 1,
  'work.later': 1,
  'work.words': 1,
  'work.ms': 1,
  'work.gotAt': 1,
} as const;

/** Finds the pushes to a device by index, as long as their documents are kept. */
export function createPushesOfDevice(db: Db) {
  const tables: Tables = {
    pushes: db.collection('pushes'),
    batches: db.collection('batches'),
    inbox: db.collection('inbox'),
  };
  return {
    /**
     * Lists the pushes to a device whose recipients are in batches, the newest first. `next` is the id below which the
     * next page begins, which may be empty; a page without it is the last, and only that one has fewer than `limit`.
     */
    async list(query: DevicePushQuery): Promise<{ pushes: DevicePush[]; next?: string }> {
      const pushes: DevicePush[] = [];
      let next: string | undefined = query.before;
      // Pushes that are not accepted yet or about to be removed are left out.
      while (next !== undefined && pushes.length < query.limit) {
        const rest = { ...query, before: next, limit: query.limit - pushes.length };
        const found = await findHolders(tables, rest);
        pushes.push(...(await describe(tables, query, found.ids)));
        next = found.next;
      }
      return { pushes, ...(next !== undefined && { next }) };
    },
  };
}

/** Finds the batches that hold the device, one for each push: the newest first, with the cursor of those after them. */
async function findHolders(
  { pushes, batches }: Tables,
  { app, token, before, limit }: DevicePushQuery,
): Promise<{ ids: string[]; next?: string }> {
  const joined = { $concat: [' ', '$work.tokens', ' '] };
  const filter = {
    tokenHashes: hashToken(token),
    app,
    _id: { $lt: before },
    // Another device may have the same hash.
    $expr: { $gte: [{ $indexOfBytes: [joined, ` ${token} `] }, 0] },
  };
  // The order of ids would lead over all pushes.
  const options = { projection: { _id: 1 }, hint: DEVICE_INDEX, batchSize: limit + 1 } as const;
  const pages = await Promise.all([
    pushes.find(filter, options).sort({ _id: -1 }).limit(limit).toArray(),
    batches.find(filter, options).sort({ _id: -1 }).limit(limit).toArray(),
  ]);
  const found = pages.flat();
  // A device that has changed its platform while topics were resolved may be in two batches of a push.
  const byPush = new Map(found.map(({ _id }) => [pushIdOfBatch(_id), _id]));
  const ids = [...byPush.values()].sort((a, b) => (a < b ? 1 : -1)).slice(0, limit);
  const last = ids.at(-1);
  const hasMore = found.length >= limit && last !== undefined;
  return { ids, ...(hasMore && { next: pushIdOfBatch(last) }) };
}

async function describe(
  tables: Tables,
  { app, token }: DevicePushQuery,
  ids: readonly string[],
): Promise<DevicePush[]> {
  if (ids.length === 0) return [];
  const [heads, holders] = await Promise.all([
    readHeads(tables, app, ids.map(pushIdOfBatch)),
    readHolders(tables, token, [...ids, ...ids.map(fallbackBatchId)]),
  ]);
  const superseded = await findSuperseded(tables, token, ids, { heads, holders });
  return ids.flatMap((id) => {
    const push = heads.get(pushIdOfBatch(id));
    const primary = superseded.get(id) ?? holders.get(id);
    if (push === undefined || primary === undefined) return [];
    const codes = outcomeCodes(primary.work);
    if (superseded.has(id)) markSuperseded(codes, (position) => position === primary.position);
    const isSuperseded = codes[primary.position] === OUTCOMES.superseded;
    const fallback = holders.get(fallbackBatchId(id));
    return [
      {
        push,
        recipient: describeTried(token, codes, primary, ...(fallback ? [fallback] : [])),
        status: {
          ...statusAt(primary.work, primary.position, id),
          ...(isSuperseded && { outcome: 'superseded' }),
        },
      },
    ];
  });
}

async function readHeads(
  { pushes }: Tables,
  app: string,
  ids: readonly string[],
): Promise<Map<string, Head>> {
  const heads = await pushes
    .find<Head>(
      { _id: { $in: [...ids] }, ...keptPushes(app) },
      { projection: { ...REPORTED_LIST_FIELDS, collapse: 1 }, batchSize: ids.length + 1 },
    )
    .toArray();
  return new Map(heads.map((head) => [head._id, head]));
}

/** Reads what these batches know about a recipient; those that don't exist or don't hold it are left out. */
async function readHolders(
  { pushes, batches }: Tables,
  token: string,
  ids: readonly string[],
): Promise<Map<string, RecipientBatch>> {
  const position = { $indexOfArray: [{ $split: ['$work.tokens', ' '] }, token] };
  const options = { projection: { ...BATCH_FIELDS, position }, batchSize: ids.length + 1 };
  const [own, embedded] = [ids.filter(isBatchId), ids.filter((id) => !isBatchId(id))];
  const found = await Promise.all([
    embedded.length === 0 ? [] : pushes.find<Found>({ _id: { $in: embedded } }, options).toArray(),
    own.length === 0 ? [] : batches.find<Found>({ _id: { $in: own } }, options).toArray(),
  ]);
  return new Map(
    found
      .flat()
      .filter((one) => one.position >= 0)
      .map(({ _id, ...holder }) => [_id, { id: _id, ...holder }]),
  );
}

/**
 * Reads the batches again in which the recipient waits in an inbox and has no row there. If it still does, a newer push
 * of the collapse key has replaced the row: receipts and final outcomes are written before rows go.
 */
async function findSuperseded(
  tables: Tables,
  token: string,
  ids: readonly string[],
  {
    heads,
    holders,
  }: { heads: ReadonlyMap<string, Head>; holders: ReadonlyMap<string, RecipientBatch> },
): Promise<Map<string, RecipientBatch>> {
  const inInbox = new Map(
    ids.flatMap((id) => {
      const push = pushIdOfBatch(id);
      const collapse = heads.get(push)?.collapse;
      const holder = holders.get(id);
      if (holder === undefined || collapse === undefined) return [];
      const { outcome } = statusAt(holder.work, holder.position, id);
      return outcome === 'inbox' ? [[id, rowId({ token, push, collapse })] as const] : [];
    }),
  );
  if (inInbox.size === 0) return new Map();
  const rows = await tables.inbox
    .find({ _id: { $in: [...inInbox.values()] } }, { projection: { push: 1 } })
    .toArray();
  const present = new Set(rows.map(({ push }) => push));
  const missing = [...inInbox.keys()].filter((id) => !present.has(pushIdOfBatch(id)));
  return missing.length === 0 ? new Map() : readHolders(tables, token, missing);
}
