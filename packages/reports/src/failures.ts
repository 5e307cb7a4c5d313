import { CHANNELS, type Channel } from '@carillon/core/channels';
import { isBatchId, pushIdOfBatch } from '@carillon/core/ids';
import { describeOutcome, type Failure } from '@carillon/core/outcomes';
import type { BatchDocument, PushDocument } from '@carillon/store/documents';
import {
  type BatchWithFailures,
  compareById,
  failedPositions,
  type Holder,
  type Holders,
  hasReason,
  MARK,
  type Mark,
  readMarks,
  type Tables,
} from '@carillon/store/failed-batches';
import { FAILURES_BY_TIME_INDEX } from '@carillon/store/migrate';
import { OUTCOME_PROJECTION, outcomeCodes } from '@carillon/store/recipient-status';
import { isRedriven } from '@carillon/store/redriven';
import type { Db, Filter } from 'mongodb';

/** Marks that a page reads at most: about 20 ms of MongoDB. */
const MAX_SCANNED = 10_000;

/** Fields of a batch with the positions and reasons of its failures; the recipients' tokens are not among them. */
const FAILED_BATCH = {
  ...MARK,
  ...OUTCOME_PROJECTION,
  'work.words': 1,
  'work.redriven': 1,
} as const;

/** Position in a list of failures: the page continues with older ones. */
export interface FailureCursor {
  failedAt: Date;
  id: string;
}

/** A query for failures of an app. */
export interface FailureQuery {
  app: string;
  channel?: Channel | undefined;
  reason?: Failure | undefined;
  from?: Date | undefined;
  to?: Date | undefined;
  cursor?: FailureCursor | undefined;
  limit: number;
}

/** Failed recipients with one reason; `text` is the provider's error, if it returned one. */
export interface FailureReason {
  reason?: Failure;
  text?: string;
  count: number;
}

/** A batch with failed recipients. */
export interface FailedBatch {
  id: string;
  push: string;
  channel: Channel;
  failedAt: Date;
  /** Failed recipients, with the reason of the query. */
  failed: number;
  /** Those of them that a re-drive has sent to again. */
  redriven: number;
  reasons: FailureReason[];
}

/** A page of failures; `next` is absent when no older ones exist. */
export interface FailurePage {
  batches: FailedBatch[];
  next?: FailureCursor;
}

/** Finds failed deliveries. Only batches with a failed recipient are in the indexes that it reads. */
export function createFailures(db: Db) {
  const pushes = db.collection<PushDocument>('pushes') as unknown as Holders;
  const batches = db.collection<BatchDocument>('batches') as unknown as Holders;

  const tables = { pushes, batches };
  return {
    /**
     * Lists batches with failed recipients, the newest failure first. A page reads at most 10,000 marks, so it may be
     * shorter than `limit`, or empty, and still have a `next`. Batches whose failed recipients have all acknowledged
     * over another channel since are left out.
     */
    async list(query: FailureQuery): Promise<FailurePage> {
      const { reason, limit } = query;
      const order = {
        sort: [
          ['work.failedAt', -1],
          ['_id', -1],
        ] satisfies [string, 1 | -1][],
        hint: FAILURES_BY_TIME_INDEX,
        batchSize: reason === undefined ? limit + 1 : 1_000,
      };
      const page: Mark[] = [];
      // Counts the marks that were read, also those with another reason.
      let scanned = 0;
      let last: Mark | undefined;
      let hasMore = false;
      for await (const mark of readMarks(tables, buildTimeFilter(query), order, compareByTime)) {
        hasMore = page.length === limit || scanned === MAX_SCANNED;
        if (hasMore) break;
        scanned += 1;
        last = mark;
        if (hasReason(mark, reason)) page.push(mark);
      }
      const next = hasMore && last?.work.failedAt !== undefined;
      return {
        batches: await readFailedBatches(tables, page, reason),
        ...(next && { next: { failedAt: last?.work.failedAt as Date, id: last?._id as string } }),
      };
    },
  };
}

async function readFailedBatches(
  { pushes, batches }: Tables,
  marks: readonly Mark[],
  reason: Failure | undefined,
): Promise<FailedBatch[]> {
  const ids = marks.map(({ _id }) => _id);
  const found = await Promise.all(
    [pushes, batches].map(async (collection) => {
      const some = ids.filter((id) => isBatchId(id) === (collection === batches));
      if (some.length === 0) return [];
      return collection
        .find<{ _id: string; work: BatchWithFailures }>(
          { _id: { $in: some } },
          {
            projection: FAILED_BATCH,
            batchSize: some.length + 1,
          },
        )
        .toArray();
    }),
  );
  const byId = new Map(found.flat().map(({ _id, work }) => [_id, work]));
  return ids.flatMap((id) => {
    const batch = byId.get(id);
    const failedBatch = batch && summarizeFailures(id, batch, reason);
    return failedBatch === undefined ? [] : [failedBatch];
  });
}

function buildTimeFilter({ app, channel, from, to, cursor }: FailureQuery): Filter<Holder> {
  const until = cursor === undefined ? to : cursor.failedAt;
  return {
    app,
    // An equality for each channel: their parts of the index are merged in order of time.
    'work.channel': channel ?? { $in: CHANNELS },
    'work.failedAt': { $gte: from ?? new Date(0), ...(until !== undefined && { $lte: until }) },
    ...(cursor !== undefined && {
      $or: [{ 'work.failedAt': { $lt: cursor.failedAt } }, { _id: { $lt: cursor.id } }],
    }),
  };
}

function compareByTime(a: Mark, b: Mark): number {
  const byTime = (b.work.failedAt?.getTime() ?? 0) - (a.work.failedAt?.getTime() ?? 0);
  return byTime === 0 ? -compareById(a, b) : byTime;
}

/** Counts the failed recipients of a batch by reason, the most frequent first; undefined if there are none. */
function summarizeFailures(
  id: string,
  batch: BatchWithFailures,
  reason: Failure | undefined,
): FailedBatch | undefined {
  const positions = failedPositions(batch, reason);
  if (positions.length === 0 || batch.failedAt === undefined) return undefined;
  return {
    id,
    push: pushIdOfBatch(id),
    channel: batch.channel,
    failedAt: batch.failedAt,
    failed: positions.length,
    redriven: positions.filter((position) => isRedriven(batch, position)).length,
    reasons: countReasons(batch, positions),
  };
}

function countReasons(batch: BatchWithFailures, positions: readonly number[]): FailureReason[] {
  const codes = outcomeCodes(batch);
  const texts = new Map(
    batch.words?.flatMap(([text, some]) => some.map((position) => [position, text] as const)),
  );
  const groups = Map.groupBy(
    positions,
    (position) => `${codes[position]} ${texts.get(position) ?? ''}`,
  );
  const reasons = [...groups.values()].map((some): FailureReason => {
    const [first = 0] = some;
    const { reason } = describeOutcome(codes[first] ?? 0);
    const text = texts.get(first);
    return {
      ...(reason !== undefined && { reason }),
      ...(text !== undefined && { text }),
      count: some.length,
    };
  });
  return reasons.sort((a, b) => b.count - a.count);
}
