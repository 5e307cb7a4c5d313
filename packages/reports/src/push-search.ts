import type { PushState } from '@carillon/core/batch';
import { pushIdFrom, pushIdOfBatch } from '@carillon/core/ids';
import type { OutcomeName } from '@carillon/core/outcomes';
import type { Clock } from '@carillon/store/clock';
import type { PushDocument } from '@carillon/store/documents';
import { compareById, type Holders, readMarks } from '@carillon/store/failed-batches';
import { FAILURES_BY_PUSH_INDEX } from '@carillon/store/migrate';
import { LISTED_FIELDS, type ListedPush } from '@carillon/store/pushes';
import type { Collection, Db, Document, Filter } from 'mongodb';
import type { createPushesOfDevice } from './pushes-of-device.ts';

/** Maximum ids, or marks of failures, that a page with a filter reads. */
const MAX_SCANNED = 10_000;
/** Ids that are read at once. */
const IDS_PER_STEP = 1_000;
/** Time after which a page with a filter reads no further ids. */
const MAX_SCAN_MS = 150;
/** Maximum age of a scheduled push's due time: a push is opened within seconds, unless no scheduler was running. */
const MAX_OVERDUE_MS = 3_600_000;

/** A query for pushes of an app. Times are those at which pushes are due, or accepted if that is at once. */
export interface PushQuery {
  app: string;
  state?: PushState | undefined;
  from?: Date | undefined;
  to?: Date | undefined;
  /** Only pushes to this topic. */
  topic?: string | undefined;
  /** Only pushes to this device whose recipients are known. */
  token?: string | undefined;
  /**
   * Only pushes with such recipients; with a `token`, only those that ended like this for the device. Of pushes that
   * have not ended, only those with failed recipients are found.
   */
  outcome?: OutcomeName | undefined;
  /** Only pushes before this id. */
  cursor?: string | undefined;
  limit: number;
}

/** A range of ids, the newest first: those from `after`, and below `before`. */
interface Range {
  after: string;
  before: string;
}

/** Some pushes that may match, the newest first. Older ones are below `next`; it is absent if there are none. */
interface Candidates {
  ids: string[];
  next?: string | undefined;
}

interface FoundPushes {
  pushes: ListedPush[];
  next?: string;
}

type PushesOfDevice = ReturnType<typeof createPushesOfDevice>;

interface Tables {
  pushes: Holders;
  batches: Holders;
}

/** Finds pushes of an app by state, time, topic, device and outcome. */
export function createPushSearch(
  db: Db,
  clock: Pick<Clock, 'now'>,
  pushesOfDevice: PushesOfDevice,
) {
  const pushes = db.collection<PushDocument>('pushes');
  const tables: Tables = { pushes: db.collection('pushes'), batches: db.collection('batches') };

  return {
    /**
     * Searches pushes, the newest first. Scheduled pushes that are not due yet are only in the list of that state. A
     * page with a filter reads a limited number of ids, so it may be shorter than `limit`, or empty, and still have a
     * `next`.
     */
    async search(query: PushQuery): Promise<FoundPushes> {
      const { state, token, topic, outcome, cursor, limit } = query;
      const { after, before: newest } = idRange(query, clock.now());
      const range = { after, before: cursor !== undefined && cursor < newest ? cursor : newest };
      if (token !== undefined)
        return select(pushes, query, range, ({ before }) =>
          findOfDevice(pushesOfDevice, query, { token, before }),
        );
      if (outcome === 'failed')
        return select(pushes, query, range, (rest) => findFailed(tables, query, rest));
      const matchesAll = state === undefined || state === 'scheduled';
      if (!matchesAll || topic !== undefined || outcome !== undefined)
        return scan(pushes, query, range);
      return toPage(await find(pushes, query, { $gte: after, $lt: range.before }), limit);
    },
  };
}

function find(
  pushes: Collection<PushDocument>,
  query: PushQuery,
  ids: Document,
): Promise<ListedPush[]> {
  return pushes
    .find<ListedPush>({ ...buildFilter(query), _id: ids }, { projection: LISTED_FIELDS })
    .sort({ _id: -1 })
    .limit(query.limit + 1)
    .toArray();
}

/** Reads all pushes of a range until a page is full. */
async function scan(
  pushes: Collection<PushDocument>,
  query: PushQuery,
  { after, before }: Range,
): Promise<FoundPushes> {
  const found: ListedPush[] = [];
  let upper = before;
  const startedAt = performance.now();
  for (let scanned = 0; scanned < MAX_SCANNED; scanned += IDS_PER_STEP) {
    const end = await findStepEnd(pushes, query.app, { after, before: upper });
    found.push(...(await find(pushes, query, { $gte: end ?? after, $lt: upper })));
    if (found.length > query.limit || end === undefined) return toPage(found, query.limit);
    upper = end;
    if (performance.now() - startedAt > MAX_SCAN_MS) break;
  }
  return { pushes: found, next: upper };
}

/** Returns the id that ends the next step of a scan; undefined if the range has no more ids than that. */
async function findStepEnd(
  pushes: Collection<PushDocument>,
  app: string,
  { after, before }: Range,
): Promise<string | undefined> {
  const [last] = await pushes
    .find({ app, _id: { $gte: after, $lt: before } }, { projection: { _id: 1 } })
    .sort({ _id: -1 })
    .skip(IDS_PER_STEP - 1)
    .limit(1)
    .toArray();
  return last?._id;
}

/** Reads those of some pushes that match, until a page is full. */
async function select(
  pushes: Collection<PushDocument>,
  query: PushQuery,
  { after, before }: Range,
  findNext: (range: Range) => Promise<Candidates>,
): Promise<FoundPushes> {
  const found: ListedPush[] = [];
  const startedAt = performance.now();
  for (let upper = before; ; ) {
    const { ids, next } = await findNext({ after, before: upper });
    if (ids.length > 0) found.push(...(await find(pushes, query, { $in: ids, $gte: after })));
    const isLast = next === undefined || next <= after;
    if (found.length > query.limit || isLast) return toPage(found, query.limit);
    if (performance.now() - startedAt > MAX_SCAN_MS) return { pushes: found, next };
    upper = next;
  }
}

/** Finds pushes with failed recipients, by an index that has no others. */
async function findFailed(
  tables: Tables,
  { app, limit }: PushQuery,
  { after, before }: Range,
): Promise<Candidates> {
  const order = {
    sort: [['_id', -1]] satisfies [string, -1][],
    ...{ hint: FAILURES_BY_PUSH_INDEX, batchSize: IDS_PER_STEP },
  };
  const filter = {
    ...{ app, _id: { $gte: after, $lt: before } },
    'work.failedAt': { $gte: new Date(0) },
  };
  const ids = new Set<string>();
  let scanned = 0;
  for await (const { _id } of readMarks(tables, filter, order, (a, b) => compareById(b, a))) {
    // The batches of a push sort after its id, so the next candidates are of older pushes.
    if (ids.size > limit || scanned === MAX_SCANNED)
      return { ids: [...ids], next: [...ids].at(-1) };
    ids.add(pushIdOfBatch(_id));
    scanned += 1;
  }
  return { ids: [...ids] };
}

async function findOfDevice(
  pushesOfDevice: PushesOfDevice,
  { app, limit, outcome }: PushQuery,
  { token, before }: { token: string; before: string },
): Promise<Candidates> {
  const { pushes, next } = await pushesOfDevice.list({ app, token, before, limit: limit + 1 });
  const matching = pushes.filter(
    ({ status }) => outcome === undefined || status.outcome === outcome,
  );
  return { ids: matching.map(({ push }) => push._id), next };
}

/** Builds the filter of a query but for its range; the recipients of a device, and failed ones, are found before. */
function buildFilter({ app, state, topic, token, outcome }: PushQuery): Filter<PushDocument> {
  const isOfAny = outcome !== undefined && token === undefined;
  const counted = { [`counts.${outcome}`]: { $gt: 0 } };
  return {
    app,
    state: state ?? { $ne: 'accepting' },
    ...(topic !== undefined && { topics: topic }),
    // A device may have acknowledged after its failure.
    ...(isOfAny &&
      (outcome === 'failed' ? { $or: [{ counts: { $exists: false } }, counted] } : counted)),
  };
}

/** Returns the range of ids that a query selects. */
function idRange({ state, from, to }: PushQuery, nowMs: number): Range {
  const isScheduled = state === 'scheduled';
  const fromMs = Math.max(from?.getTime() ?? 0, isScheduled ? nowMs - MAX_OVERDUE_MS : 0);
  const untilMs = Math.min(
    to?.getTime() ?? Number.POSITIVE_INFINITY,
    isScheduled ? Number.POSITIVE_INFINITY : nowMs,
  );
  const before = Number.isFinite(untilMs) ? pushIdFrom(untilMs + 1) : 'g';
  return { after: pushIdFrom(fromMs), before };
}

function toPage(found: ListedPush[], limit: number): FoundPushes {
  const pushes = found.slice(0, limit);
  const last = pushes.at(-1);
  return found.length > limit && last !== undefined ? { pushes, next: last._id } : { pushes };
}
