import type { PushState } from '@carillon/core/batch';
import { pushIdFrom } from '@carillon/core/ids';
import type { Clock } from '@carillon/store/clock';
import type { PushDocument } from '@carillon/store/documents';
import { LISTED_FIELDS, type ListedPush } from '@carillon/store/pushes';
import type { Db } from 'mongodb';

/** Maximum ids that a page with a filter reads. */
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
  /** Only pushes before this id. */
  cursor?: string | undefined;
  limit: number;
}

/** Finds pushes of an app by state and time. */
export function createPushSearch(db: Db, clock: Clock) {
  const pushes = db.collection<PushDocument>('pushes');

  const find = ({ app, limit }: PushQuery, after: string, before: string, state?: PushState) =>
    pushes
      .find<ListedPush>(
        { app, _id: { $gte: after, $lt: before }, state: state ?? { $ne: 'accepting' } },
        { projection: LISTED_FIELDS },
      )
      .sort({ _id: -1 })
      .limit(limit + 1)
      .toArray();

  /** Returns the id that ends the next step of a scan; undefined if the range has no more ids than that. */
  async function findStepEnd(app: string, after: string, before: string) {
    const [last] = await pushes
      .find({ app, _id: { $gte: after, $lt: before } }, { projection: { _id: 1 } })
      .sort({ _id: -1 })
      .skip(IDS_PER_STEP - 1)
      .limit(1)
      .toArray();
    return last?._id;
  }

  return {
    /**
     * Searches pushes, the newest first. Scheduled pushes that are not due yet are only in the list of that state. A
     * page with another state reads at most 10,000 ids, so it may be shorter than `limit`, or empty, and still have a
     * `next`.
     */
    async search(query: PushQuery): Promise<{ pushes: ListedPush[]; next?: string }> {
      const { app, state, limit } = query;
      const [after, newest] = idRange(query, clock.now());
      let before = query.cursor !== undefined && query.cursor < newest ? query.cursor : newest;
      if (state === undefined || state === 'scheduled')
        return toPage(await find(query, after, before, state), limit);
      const found: ListedPush[] = [];
      const startedAt = performance.now();
      for (let scanned = 0; scanned < MAX_SCANNED; scanned += IDS_PER_STEP) {
        const end = await findStepEnd(app, after, before);
        found.push(...(await find(query, end ?? after, before, state)));
        if (found.length > limit || end === undefined) return toPage(found, limit);
        before = end;
        if (performance.now() - startedAt > MAX_SCAN_MS) break;
      }
      return { pushes: found, next: before };
    },
  };
}

/** Returns the range of ids that a query selects: the first, and the one after the last. */
function idRange({ state, from, to }: PushQuery, nowMs: number): [string, string] {
  const isScheduled = state === 'scheduled';
  const fromMs = Math.max(from?.getTime() ?? 0, isScheduled ? nowMs - MAX_OVERDUE_MS : 0);
  const untilMs = Math.min(
    to?.getTime() ?? Number.POSITIVE_INFINITY,
    isScheduled ? Number.POSITIVE_INFINITY : nowMs,
  );
  return [pushIdFrom(fromMs), Number.isFinite(untilMs) ? pushIdFrom(untilMs + 1) : 'g'];
}

function toPage(found: ListedPush[], limit: number): { pushes: ListedPush[]; next?: string } {
  const pushes = found.slice(0, limit);
  const last = pushes.at(-1);
  return found.length > limit && last !== undefined ? { pushes, next: last._id } : { pushes };
}
