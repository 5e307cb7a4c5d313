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
import { DEVICE_INDEX, TOKEN_RANGE_INDEX } from '@carillon/store/migrate';
import { OUTCOME_PROJECTION, outcomeCodes, statusAt } from '@carillon/store/recipient-status';
import { markSuperseded } from '@carillon/store/superseded';
import type { Collection, Db, FindCursor } from 'mongodb';
import { keptPushes, REPORTED_LIST_FIELDS, type ReportedListPush } from './push-outcomes.ts';
import { describeTried, type RecipientBatch, type TriedRecipient } from './recipients.ts';

/** Maximum large batches of each form whose ranges a page compares: keys of an index. */
const MAX_COMPARED_BATCHES = 20_000;
/** Maximum large batches that a page searches: their ranges include the device, yet few may hold it. */
const MAX_SEARCHED_BATCHES = 1_000;
/** Minimum batches that are read at once, so that a short page takes few reads of large batches. */
const MIN_BATCHES_PER_READ = 100;

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

type Id = { _id: string };
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
     * next page begins, which may be empty; a page without it is the last. A page searches a limited number of large
     * batches, so it may be shorter than `limit`, or empty, and still have a `next`.
     */
    async list(query: DevicePushQuery): Promise<{ pushes: DevicePush[]; next?: string }> {
      const { token, limit } = query;
      const { large, end } = await findLargeBatches(tables, query);
      const pushes: DevicePush[] = [];
      let { before } = query;
      for (;;) {
        // One more than are missing: the last push of a read is left out.
        const size = Math.max(limit - pushes.length + 1, MIN_BATCHES_PER_READ);
        const small = await findSmallBatches(tables, { ...query, before, limit: size }, end);
        const rest = large.filter((id) => id < before);
        const ids = [...small, ...rest].sort(newestFirst).slice(0, size);
        const complete = withoutCutPush(ids, size);
        pushes.push(...(await describe(tables, query.app, token, complete)));
        const last = pushes[limit - 1];
        if (last !== undefined) return { pushes: pushes.slice(0, limit), next: last.push._id };
        before = lastPushOf(complete) ?? before;
        if (ids.length < size) return { pushes, ...(end !== undefined && { next: end }) };
      }
    },
  };
}

const newestFirst = (a: string, b: string) => (a < b ? 1 : -1);

/** Leaves out the last push of a list that has reached its limit: it may have batches that are not listed. */
function withoutCutPush(ids: string[], limit: number): string[] {
  const last = lastPushOf(ids);
  const complete = ids.filter((id) => pushIdOfBatch(id) !== last);
  return ids.length < limit || complete.length === 0 ? ids : complete;
}

function lastPushOf(ids: readonly string[]): string | undefined {
  const last = ids.at(-1);
  return last === undefined ? undefined : pushIdOfBatch(last);
}

/** Finds batches of few recipients that hold the device or another with the same hash, the newest first. */
async function findSmallBatches(
  { pushes, batches }: Tables,
  { app, token, before, limit }: DevicePushQuery,
  end = '',
): Promise<string[]> {
  const filter = { tokenHashes: hashToken(token), app, _id: { $gte: end, $lt: before } };
  // The order of ids would lead over all pushes.
  const options = { projection: { _id: 1 }, hint: DEVICE_INDEX, batchSize: limit + 1 } as const;
  const found = await Promise.all([
    pushes.find(filter, options).sort({ _id: -1 }).limit(limit).toArray(),
    batches.find(filter, options).sort({ _id: -1 }).limit(limit).toArray(),
  ]);
  return found.flat().map(({ _id }) => _id);
}

/**
 * Finds the large batches whose range of tokens includes the device, the newest first. Reads only keys of an index.
 *
 * @returns `end`, if the search was ended by a limit: the oldest push of which all are found
 */
async function findLargeBatches(
  { pushes, batches }: Tables,
  { app, token, before }: Omit<DevicePushQuery, 'limit'>,
): Promise<{ large: string[]; end?: string | undefined }> {
  const limit = MAX_SEARCHED_BATCHES;
  const [projection, hint] = [{ _id: 1 }, TOKEN_RANGE_INDEX] as const;
  // Not by its existence, which is not in the index.
  const older = { app, firstToken: { $gte: '' }, _id: { $lt: before } };
  const lasts = await Promise.all([
    findLastCompared(pushes.find<Id>(older, { projection, hint })),
    findLastCompared(batches.find<Id>(older, { projection, hint })),
  ]);
  const compared = lasts.toSorted().at(-1) ?? '';
  const range = { firstToken: { $lte: token }, lastToken: { $gte: token } };
  const filter = { app, ...range, _id: { $gte: compared, $lt: before } };
  const options = { projection, hint, batchSize: limit + 1 };
  const found = await Promise.all([
    pushes.find(filter, options).sort({ _id: -1 }).limit(limit).toArray(),
    batches.find(filter, options).sort({ _id: -1 }).limit(limit).toArray(),
  ]);
  const ids = found.flat().map(({ _id }) => _id);
  const newest = ids.sort(newestFirst).slice(0, limit);
  const large = withoutCutPush(newest, limit);
  if (newest.length === limit) return { large, end: lastPushOf(large) };
  return { large, ...(compared !== '' && { end: compared }) };
}

/** Returns the push of the last batch that is compared; an empty text if that is the oldest one. */
async function findLastCompared(older: FindCursor<Id>): Promise<string> {
  const [last] = await older
    .sort({ _id: -1 })
    .skip(MAX_COMPARED_BATCHES - 1)
    .limit(1)
    .toArray();
  return last === undefined ? '' : pushIdOfBatch(last._id);
}

/** Describes the pushes of those batches that hold the device. */
async function describe(
  tables: Tables,
  app: string,
  token: string,
  candidates: readonly string[],
): Promise<DevicePush[]> {
  const found = await readHolders(tables, token, candidates);
  // A device that has changed its platform while topics were resolved may be in two batches of a push.
  const byPush = new Map(
    candidates.filter((id) => found.has(id)).map((id) => [pushIdOfBatch(id), id]),
  );
  const ids = [...byPush.values()];
  if (ids.length === 0) return [];
  const [heads, fallbacks] = await Promise.all([
    readHeads(tables, app, [...byPush.keys()]),
    readHolders(tables, token, [...found.values()].flatMap(fallbackIdsOf)),
  ]);
  const superseded = await findSuperseded(tables, token, ids, { heads, holders: found });
  return ids.flatMap((id) => {
    const push = heads.get(pushIdOfBatch(id));
    const primary = superseded.get(id) ?? found.get(id);
    if (push === undefined || primary === undefined) return [];
    const codes = outcomeCodes(primary.work);
    if (superseded.has(id)) markSuperseded(codes, (position) => position === primary.position);
    const isSuperseded = codes[primary.position] === OUTCOMES.superseded;
    const tried = fallbackIdsOf(primary).flatMap((one) => fallbacks.get(one) ?? []);
    return [
      {
        push,
        recipient: describeTried(token, codes, primary, ...tried),
        status: {
          ...statusAt(primary.work, primary.position, id),
          ...(isSuperseded && { outcome: 'superseded' }),
        },
      },
    ];
  });
}

/** Lists the ids that a fallback with the recipient of a batch may have. */
const fallbackIdsOf = ({ id, position }: RecipientBatch): string[] => [
  fallbackBatchId(id),
  fallbackBatchId(id, position),
];

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
  // Faster than the position, and few of the large batches hold it.
  const holds = { $expr: { $gte: [{ $indexOfBytes: ['$work.tokens', token] }, 0] } };
  const [own, embedded] = [ids.filter(isBatchId), ids.filter((id) => !isBatchId(id))];
  const found = await Promise.all([
    embedded.length === 0
      ? []
      : pushes.find<Found>({ _id: { $in: embedded }, ...holds }, options).toArray(),
    own.length === 0 ? [] : batches.find<Found>({ _id: { $in: own }, ...holds }, options).toArray(),
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
