import type { ReportedState } from '@carillon/core/batch';
import type { Channel } from '@carillon/core/channels';
import {
  channelOfOutcome,
  describeOutcome,
  type Failure,
  OUTCOMES,
  type ReportedOutcome,
  toReportedOutcome,
} from '@carillon/core/outcomes';
import { toBytes } from '@carillon/store/bytes';
import type { Batch, BatchDocument, InboxDocument, PushDocument } from '@carillon/store/documents';
import { primaryBatches } from '@carillon/store/final-outcomes';
import { listLateLatencies } from '@carillon/store/receipt-times';
import { OUTCOME_PROJECTION, outcomeCodes } from '@carillon/store/recipient-status';
import {
  findRowPositions,
  type InboxReading,
  type PositionBits,
  readInboxPositions,
} from '@carillon/store/superseded';
import type { Collection, Db, Filter } from 'mongodb';
import { createLatencySummary, type LatencySummary } from './latency-summary.ts';

/** A push as its backend may read it: without its payload. */
export type ReportedPush = Pick<
  PushDocument,
  | '_id'
  | 'app'
  | 'state'
  | 'acceptedAt'
  | 'dueAt'
  | 'expiresAt'
  | 'finishedAt'
  | 'collapse'
  | 'topics'
  | 'devices'
  | 'fan'
  | 'counts'
  | 'work'
>;

/** Number of recipients by outcome; outcomes without recipients are omitted. */
export type ReportedCounts = Partial<Record<ReportedOutcome, number>>;

/** The recipients of a push that are in its batches. */
export interface OutcomeSummary {
  recipients: number;
  outcomes: ReportedCounts;
  channels: Partial<Record<Channel, ReportedCounts>>;
  /** Failed recipients by reason. */
  reasons: Partial<Record<Failure, number>>;
  /** Latencies of the receipts; absent if no receipt has a stored time. */
  latency?: LatencySummary;
}

/** A list of an app's pushes: those with ids from `from` and below `before`. */
export interface PushListQuery {
  app: string;
  from: string;
  before: string;
  state?: ReportedState | undefined;
  limit: number;
}

/** A push in a list. */
export type ReportedListPush = Omit<ReportedPush, 'work' | 'fan' | 'collapse'>;

/** Maximum ids that one page of a list reads, so that a rare state costs no scan of all pushes. */
const MAX_SCANNED_PUSHES = 1_000;

/** The fields of a {@link ReportedListPush}, as a projection. */
export const REPORTED_LIST_FIELDS = {
  app: 1,
  state: 1,
  acceptedAt: 1,
  dueAt: 1,
  expiresAt: 1,
  finishedAt: 1,
  devices: 1,
  counts: 1,
  topics: 1,
} as const;

const SUMMARY_FIELDS = {
  ...OUTCOME_PROJECTION,
  'work.channel': 1,
  'work.ms': 1,
  'work.gotAt': 1,
} as const;

type CountedBatch = Pick<Batch, 'channel' | 'ms' | 'gotAt'> & Parameters<typeof outcomeCodes>[0];

/** Filters pushes whose documents are kept; pushes that were never accepted are left out. */
export function keptPushes(app: string) {
  return {
    app,
    state: { $in: ['scheduled', 'open', 'finished', 'deleted'] as const },
    $or: [{ purgeAt: { $exists: false } }, { $expr: { $gt: ['$purgeAt', '$$NOW'] } }],
  };
}

function stateFilter(state: ReportedState | undefined): Filter<PushDocument> {
  if (state === undefined) return {};
  if (state === 'expired') return { state: 'finished', finishedAt: { $exists: false } };
  if (state === 'finished') return { state, finishedAt: { $exists: true } };
  return { state };
}

/** Reads pushes and their counts for the app that sent them, until their documents are removed. */
export function createPushOutcomes(db: Db) {
  const pushes = db.collection<PushDocument>('pushes');
  const batches = db.collection<BatchDocument>('batches');
  const inbox = db.collection<InboxDocument>('inbox');

  const find = async (app: string, id: string): Promise<ReportedPush | undefined> =>
    (await pushes.findOne<ReportedPush>(
      { _id: id, ...keptPushes(app) },
      { projection: { data: 0, options: 0, idempotency: 0, audience: 0 } },
    )) ?? undefined;

  return {
    /** Finds a push of an app; undefined when it is absent, another app's, or its removal is due. */
    find,

    /**
     * Lists an app's pushes, the newest first. `next` is the id below which the next page begins; a page may have fewer
     * than `limit` pushes, even none, and still have a next one.
     */
    list: (query: PushListQuery): Promise<{ pushes: ReportedListPush[]; next?: string }> =>
      listPushes(pushes, query),

    /**
     * Counts the recipients of a push by outcome, channel and reason, in constant memory. A recipient whose inbox row
     * was replaced by a newer push of the collapse key is superseded.
     */
    async summarize(push: ReportedPush): Promise<OutcomeSummary> {
      const first = await countBatches(batches, push);
      if (push.collapse === undefined || !first.hasInbox) return first.summary;
      const rows = await findRowPositions({ inbox }, push._id);
      // Read again: receipts and final outcomes are written before rows go.
      const current = push.work === undefined ? push : ((await find(push.app, push._id)) ?? push);
      const reading = { before: first.inboxPositions, rows };
      return (await countBatches(batches, current, reading)).summary;
    },
  };
}

async function listPushes(
  pushes: Collection<PushDocument>,
  { app, from, before, state, limit }: PushListQuery,
): Promise<{ pushes: ReportedListPush[]; next?: string }> {
  const scanned = await pushes
    .find(
      { app, _id: { $gte: from, $lt: before } },
      { projection: { _id: 1 }, batchSize: MAX_SCANNED_PUSHES + 1 },
    )
    .sort({ _id: -1 })
    .limit(MAX_SCANNED_PUSHES)
    .map(({ _id }) => _id)
    .toArray();
  const found = await pushes
    .find<ReportedListPush>(
      { $and: [{ _id: { $in: scanned } }, keptPushes(app), stateFilter(state)] },
      { projection: REPORTED_LIST_FIELDS, batchSize: limit + 1 },
    )
    .sort({ _id: -1 })
    .limit(limit)
    .toArray();
  const isPageFull = found.length === limit;
  const next = isPageFull
    ? found.at(-1)?._id
    : scanned.length === MAX_SCANNED_PUSHES
      ? scanned.at(-1)
      : undefined;
  return { pushes: found, ...(next !== undefined && { next }) };
}

/** Counts all batches of a push; the recipients' tokens, which are most of a batch, are not read. */
async function countBatches(
  batches: Collection<BatchDocument>,
  push: Pick<ReportedPush, '_id' | 'work'>,
  reading?: InboxReading,
) {
  const counter = createCounter(reading);
  if (push.work !== undefined) counter.add(push._id, push.work);
  else {
    const stored = batches.find<{ _id: string; work: CountedBatch }>(primaryBatches(push._id), {
      projection: SUMMARY_FIELDS,
    });
    for await (const { _id, work } of stored) counter.add(_id, work);
  }
  return counter.end();
}

function createCounter(reading: InboxReading | undefined) {
  const counts = new Map<Channel, number[]>();
  const latencies = createLatencySummary();
  const inboxPositions: PositionBits = new Map();
  let hasInbox = false;

  return {
    add(id: string, batch: CountedBatch): void {
      const codes = outcomeCodes(batch);
      if (codes.includes(OUTCOMES.inbox)) {
        hasInbox = true;
        inboxPositions.set(id, readInboxPositions(id, codes, reading));
      }
      const byCode = counts.get(batch.channel) ?? new Array<number>(256).fill(0);
      counts.set(batch.channel, byCode);
      for (const code of codes) byCode[code] = (byCode[code] ?? 0) + 1;
      const isReceived = (position: number) => codes[position] === OUTCOMES.delivered;
      latencies.addPacked(toBytes(batch.ms), isReceived);
      for (const latencyMs of listLateLatencies(batch, codes, id)) latencies.add(latencyMs);
    },
    end: () => ({ summary: toSummary(counts, latencies.end()), hasInbox, inboxPositions }),
  };
}

function toSummary(
  counts: ReadonlyMap<Channel, readonly number[]>,
  latency: LatencySummary | undefined,
): OutcomeSummary {
  const summary: OutcomeSummary = {
    ...{ recipients: 0, outcomes: {}, channels: {}, reasons: {} },
    ...(latency !== undefined && { latency }),
  };
  const { outcomes, channels, reasons } = summary;
  for (const [batchChannel, byCode] of counts) {
    for (const [code, n] of byCode.entries()) {
      if (n === 0) continue;
      const { outcome, reason } = describeOutcome(code);
      const reported = toReportedOutcome(outcome);
      const channel = channelOfOutcome(batchChannel, code);
      const ofChannel = channels[channel] ?? {};
      channels[channel] = ofChannel;
      summary.recipients += n;
      outcomes[reported] = (outcomes[reported] ?? 0) + n;
      ofChannel[reported] = (ofChannel[reported] ?? 0) + n;
      if (reason !== undefined) reasons[reason] = (reasons[reason] ?? 0) + n;
    }
  }
  return summary;
}
