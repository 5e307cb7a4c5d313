import { splitTokens } from '@carillon/core/batch';
import type { Channel } from '@carillon/core/channels';
import {
  addOutcomes,
  channelOfOutcome,
  OUTCOMES,
  type OutcomeCounts,
} from '@carillon/core/outcomes';
import { toBytes } from '@carillon/store/bytes';
import type {
  Batch,
  BatchDocument,
  PushDocument,
  RecipientProviderError,
} from '@carillon/store/documents';
import { batchIdsOf, primaryBatches } from '@carillon/store/final-outcomes';
import { FAILURES_BY_PUSH_INDEX } from '@carillon/store/migrate';
import { listLateLatencies } from '@carillon/store/receipt-times';
import {
  OUTCOME_PROJECTION,
  type OutcomeFields,
  outcomeCodes,
  recipientsWithErrors,
} from '@carillon/store/recipient-status';
import type { Db } from 'mongodb';

/** Maximum batches with errors whose first recipients are shown. */
const SAMPLED_BATCHES = 3;
/** Maximum new pushes of re-drives that are shown. */
const MAX_REDRIVEN = 100;

/** Fields of a batch without the recipients' tokens, which are most of it. */
const SUMMARY_FIELDS = {
  ...OUTCOME_PROJECTION,
  'work.state': 1,
  'work.channel': 1,
  'work.counts': 1,
  'work.ms': 1,
  'work.gotAt': 1,
  'work.closedAt': 1,
  'work.failedAt': 1,
  'work.words': 1,
  'work.later': 1,
} as const;

/** An error of a provider and the number of recipients it was returned for; `isWaiting`: they are tried again. */
export interface ProviderErrorCount {
  text: string;
  count: number;
  isWaiting: boolean;
}

/** The batches of a push together. Times that are not stored are absent. */
export interface PushSummary {
  batches: number;
  openBatches: number;
  counts: OutcomeCounts;
  byChannel: Partial<Record<Channel, OutcomeCounts>>;
  providerErrors: ProviderErrorCount[];
  firstFailedAt?: Date;
  firstSettledAt?: Date;
  lastSettledAt?: Date;
  /** Shortest and longest time to a receipt, in milliseconds, of those whose time is stored; 0 means there was none. */
  fastestReceiptMs: number;
  slowestReceiptMs: number;
}

type SummarizedBatch = Omit<Batch, 'tokens'>;

/** Reads the batches of one push together, for operators. */
export function createPushSummaries(db: Db) {
  const batches = db.collection<BatchDocument>('batches');
  const pushes = db.collection<PushDocument>('pushes');

  async function findRedrives(app: string, push: string): Promise<string[]> {
    const failed = { app, ...batchIdsOf(push), 'work.failedAt': { $gte: new Date(0) } };
    const found = await batches
      .find(failed, { projection: { 'work.redriven': 1 }, hint: FAILURES_BY_PUSH_INDEX })
      .toArray();
    return listRedrives(found.map(({ work }) => work));
  }

  return {
    /**
     * Sums up the batches of a push: outcomes as the batches know them, errors of providers, times. A recipient whose
     * inbox row was replaced by a newer push of the collapse key counts as `inbox` until the push ends.
     */
    async summarize(push: Pick<PushDocument, '_id' | 'work'>): Promise<PushSummary> {
      const summary = startSummary(push._id);
      if (push.work !== undefined) summary.add(push.work);
      else {
        const stored = batches.find<{ work: SummarizedBatch }>(primaryBatches(push._id), {
          projection: SUMMARY_FIELDS,
        });
        for await (const { work } of stored) summary.add(work);
      }
      return summary.end();
    },

    /** Lists the first recipients of a push that a provider returned an error for, out of its first few batches with any. */
    async sampleProviderErrors(
      push: Pick<PushDocument, '_id' | 'work'>,
      limit: number,
    ): Promise<RecipientProviderError[]> {
      if (push.work !== undefined) return recipientsWithErrors(push.work).slice(0, limit);
      const found = await batches
        .find({
          ...batchIdsOf(push._id),
          $or: [{ 'work.words.0': { $exists: true } }, { 'work.later.0': { $exists: true } }],
        })
        .limit(SAMPLED_BATCHES)
        .toArray();
      return found.flatMap(({ work }) => recipientsWithErrors(work)).slice(0, limit);
    },

    /** Lists the recipients of a push that are in its batches; undefined if there are more than `limit`. */
    async listTokens(
      push: Pick<PushDocument, '_id' | 'work'>,
      limit: number,
    ): Promise<string[] | undefined> {
      if (push.work !== undefined) return splitTokens(push.work.tokens);
      const tokens: string[] = [];
      const stored = batches.find(primaryBatches(push._id), {
        projection: { 'work.tokens': 1 },
      });
      for await (const { work } of stored) {
        for (const token of splitTokens(work.tokens)) tokens.push(token);
        if (tokens.length > limit) return undefined;
      }
      return tokens;
    },

    /** Finds the newest pushes that re-drives have accepted for recipients of a push. */
    async findRedriven(push: Pick<PushDocument, '_id' | 'app' | 'work'>): Promise<string[]> {
      const { _id, app, work } = push;
      const by = work === undefined ? await findRedrives(app, _id) : listRedrives([work]);
      const keys = by.map((redrive) => {
        const prefix = `redrive:${redrive}:${_id}`;
        return { 'idempotency.key': { $gte: `${prefix}:`, $lt: `${prefix};` } };
      });
      if (keys.length === 0) return [];
      const found = await pushes
        .find({ app, $or: keys }, { projection: { _id: 1 } })
        .limit(MAX_REDRIVEN)
        .toArray();
      return found.map(({ _id: id }) => id).sort();
    },
  };
}

function listRedrives(works: readonly Pick<Batch, 'redriven'>[]): string[] {
  return [...new Set(works.flatMap(({ redriven = [] }) => redriven.map(({ by }) => by)))];
}

function startSummary(push: string) {
  const summary: PushSummary = {
    ...{ batches: 0, openBatches: 0, counts: {}, byChannel: {}, providerErrors: [] },
    ...{ fastestReceiptMs: 0, slowestReceiptMs: 0 },
  };
  const errors = new Map<string, ProviderErrorCount>();

  function addError(text: string, isWaiting: boolean, count: number): void {
    const key = `${isWaiting} ${text}`;
    const known = errors.get(key) ?? { text, isWaiting, count: 0 };
    known.count += count;
    errors.set(key, known);
  }

  function countsOf(channel: Channel): OutcomeCounts {
    const counts = summary.byChannel[channel] ?? {};
    summary.byChannel[channel] = counts;
    return counts;
  }

  function addLatency(latencyMs: number): void {
    const { fastestReceiptMs } = summary;
    summary.slowestReceiptMs = Math.max(summary.slowestReceiptMs, latencyMs);
    if (fastestReceiptMs === 0 || latencyMs < fastestReceiptMs)
      summary.fastestReceiptMs = latencyMs;
  }

  function addReceipts(batch: SummarizedBatch): void {
    for (const latencyMs of iterateUint32s(toBytes(batch.ms)))
      if (latencyMs > 0) addLatency(latencyMs);
    if (batch.gotAt === undefined) return;
    for (const latencyMs of listLateLatencies(batch, outcomeCodes(batch), push))
      addLatency(latencyMs);
  }

  function addTimes({ failedAt, closedAt }: SummarizedBatch): void {
    const { firstFailedAt, firstSettledAt, lastSettledAt } = summary;
    if (failedAt && !(firstFailedAt && firstFailedAt <= failedAt)) summary.firstFailedAt = failedAt;
    if (closedAt && !(firstSettledAt && firstSettledAt <= closedAt))
      summary.firstSettledAt = closedAt;
    if (closedAt && !(lastSettledAt && lastSettledAt >= closedAt)) summary.lastSettledAt = closedAt;
  }

  return {
    add(batch: SummarizedBatch): void {
      summary.batches += 1;
      if (batch.state !== 'closed') summary.openBatches += 1;
      const counts = countBatch(batch);
      addCounts(summary.counts, counts);
      const { sent = 0, ...others } = counts;
      addCounts(countsOf(batch.channel), others);
      if (sent > 0) addCounts(countsOf(channelOfOutcome(batch.channel, OUTCOMES.sent)), { sent });
      for (const [text, positions] of batch.words ?? []) addError(text, false, positions.length);
      const waiting = batch.state === 'closed' ? [] : (batch.later ?? []);
      for (const [, , , text] of waiting) if (text !== undefined) addError(text, true, 1);
      addTimes(batch);
      addReceipts(batch);
    },
    end(): PushSummary {
      summary.providerErrors = [...errors.values()].sort((a, b) => b.count - a.count);
      return summary;
    },
  };
}

/** Counts a batch; the counts of its settlement are right while nothing has changed its outcomes since. */
export function countBatch(batch: OutcomeFields & Pick<Batch, 'counts'>): OutcomeCounts {
  const { counts, got, gone, sent, refused, ended, final } = batch;
  const isUnchanged = [got, gone, sent, refused, ended, final].every((one) => one === undefined);
  if (isUnchanged && counts !== undefined) return counts;
  const counted: OutcomeCounts = {};
  addOutcomes(counted, outcomeCodes(batch));
  return counted;
}

/** Adds the counts of a batch to those of its push. */
export function addCounts(total: OutcomeCounts, counts: OutcomeCounts): void {
  for (const [outcome, n] of Object.entries(counts) as [keyof OutcomeCounts, number][])
    total[outcome] = (total[outcome] ?? 0) + n;
}

function* iterateUint32s(bytes: Uint8Array): Generator<number> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at + 4 <= view.byteLength; at += 4) yield view.getUint32(at, true);
}
