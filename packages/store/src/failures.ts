import { CHANNELS, type Channel } from '@carillon/core/channels';
import { isBatchId, pushIdOfBatch } from '@carillon/core/ids';
import { describeOutcome, type Failure, failureBit, isFailure } from '@carillon/core/outcomes';
import type { Collection, Db, Document, Filter } from 'mongodb';
import type { Batch, BatchDocument, PushDocument, RedriveFilter } from './documents.ts';
import { FAILURES_BY_PUSH_INDEX, FAILURES_BY_TIME_INDEX } from './migrate.ts';
import { OUTCOME_PROJECTION, outcomeCodes } from './recipient-status.ts';
import { isRedriven } from './redriven.ts';

/** Marks that a page reads at most: about 20 ms of MongoDB. */
const MAX_SCANNED = 10_000;

/** Fields of the mark; the indexes hold all of them. */
const MARK = { 'work.failedAt': 1, 'work.channel': 1, 'work.failures': 1 } as const;
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

/** The fields of a batch with failed recipients. */
export type BatchWithFailures = Pick<
  Batch,
  | 'n'
  | 'outcomes'
  | 'final'
  | 'lateReceipts'
  | 'got'
  | 'gone'
  | 'ended'
  | 'channel'
  | 'failedAt'
  | 'failures'
  | 'words'
  | 'redriven'
>;
type Mark = { _id: string; work: Pick<BatchWithFailures, 'failedAt' | 'channel' | 'failures'> };
type Holder = { _id: string; app: string; work: Batch };
type Holders = Collection<Holder>;

interface Tables {
  pushes: Holders;
  batches: Holders;
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

    /**
     * Reads the ids of an app's pushes with failures that were marked until `to`, in order and each once. Reads
     * index entries only.
     *
     * @param after the id of the last push of an earlier read
     */
    async *iteratePushes(
      app: string,
      { channel, reason, from, to }: RedriveFilter & { to: Date },
      after = '',
    ): AsyncGenerator<string> {
      const filter = {
        app,
        // Sorts after the batches of that push, whose ids continue with a hyphen.
        _id: { $gt: `${after}.` },
        'work.failedAt': { $gte: from ?? new Date(0), $lte: to },
        ...(channel !== undefined && { 'work.channel': channel }),
      };
      const order = {
        sort: [['_id', 1]] satisfies [string, 1 | -1][],
        hint: FAILURES_BY_PUSH_INDEX,
        batchSize: 1_000,
      };
      let previous = '';
      for await (const mark of readMarks(tables, filter, order, compareById)) {
        const push = pushIdOfBatch(mark._id);
        if (push === previous || !hasReason(mark, reason)) continue;
        previous = push;
        yield push;
      }
    },
  };
}

/** Reads marks from both collections in one order. */
function readMarks(
  { pushes, batches }: Tables,
  filter: Filter<Holder>,
  order: { sort: [string, 1 | -1][]; hint: Document; batchSize: number },
  compare: (a: Mark, b: Mark) => number,
): AsyncGenerator<Mark> {
  const open = (collection: Holders) =>
    collection.find<Mark>(filter, { projection: MARK, ...order });
  return mergeSorted(open(pushes), open(batches), compare);
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

function compareById(a: Mark, b: Mark): number {
  return a._id < b._id ? -1 : 1;
}

function hasReason({ work: { failures = 0 } }: Mark, reason: Failure | undefined): boolean {
  return reason === undefined || (failures & failureBit(reason)) !== 0;
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

/** Returns the positions of the recipients of a batch that have failed, with one reason or with any. */
export function failedPositions(batch: BatchWithFailures, reason: Failure | undefined): number[] {
  return [...outcomeCodes(batch).entries()].flatMap(([position, code]) => {
    if (!isFailure(code)) return [];
    return reason === undefined || describeOutcome(code).reason === reason ? [position] : [];
  });
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

/** Merges two sorted sources into one; closes both when the consumer stops early or one of them fails. */
async function* mergeSorted<T>(
  first: AsyncIterable<T>,
  second: AsyncIterable<T>,
  compare: (a: T, b: T) => number,
): AsyncGenerator<T> {
  const [one, other] = [first[Symbol.asyncIterator](), second[Symbol.asyncIterator]()];
  try {
    let [a, b] = await Promise.all([one.next(), other.next()]);
    while (!(a.done && b.done)) {
      if (b.done || (!a.done && compare(a.value, b.value) <= 0)) {
        yield a.value;
        a = await one.next();
      } else {
        yield b.value;
        b = await other.next();
      }
    }
  } finally {
    await Promise.all([one.return?.(), other.return?.()]);
  }
}
