import { ERASED_TOKEN, hasBit, splitTokens, toBitWords } from '@carillon/core/batch';
import { createBatcher } from '@carillon/core/batcher';
import { failpoint } from '@carillon/core/failpoint';
import { batchId, isBatchId, newClaimId } from '@carillon/core/ids';
import {
  addOutcomes,
  failureMask,
  isOpenOutcome,
  OUTCOMES,
  type OutcomeCounts,
} from '@carillon/core/outcomes';
import {
  countByApp,
  countEnds,
  countRecipients,
  processCounts,
} from '@carillon/core/process-counts';
import { Binary, type Collection, type Db, type Document, type Filter } from 'mongodb';
import { toBytes } from './bytes.ts';
import type { Clock } from './clock.ts';
import type {
  Batch,
  BatchDocument,
  InboxDocument,
  NotifyEntry,
  PushDocument,
} from './documents.ts';
import { isCollapseRowId } from './inbox.ts';
import { buildEndOfReplay, buildNotifyOperators, NOTIFY_MARK } from './notify-mark.ts';
import { buildReceiptTimes } from './receipt-times.ts';
import { outcomeCodes } from './recipient-status.ts';
import { findRowPositions, markSuperseded, type PositionBits } from './superseded.ts';

/*
 * Every write that ends a recipient is in this file, but for those of the worker that holds the claim: the settlement
 * (batch-table.ts), and before it the saves of its progress (saveOutcomes in held-batches.ts). The outcome goes into
 * the batch first, then the inbox row goes: a process that dies in between leaves a row without effect, never a
 * recipient without an outcome. One write ends many recipients of a batch.
 *
 * | end                                          | write                 | stored in the batch          |
 * |----------------------------------------------|-----------------------|------------------------------|
 * | a worker settles the batch                   | batchTable.settle     | `outcomes`                   |
 * | a receipt comes after the settlement         | receipts.record       | a bit of `got`, its time     |
 * | the device is deleted while it has a row     | receipts.recordGone   | a bit of `gone`              |
 * | the provider of the fallback has answered    | receipts.recordFallback | a bit of `sent`, or `refused` |
 * | the push expires or is deleted               | closeBatches          | `ended`, for all others      |
 * | the push ends: all of these become final     | fixOutcomes           | `outcomes`, marked `final`   |
 *
 * A newer push of the same collapse key replaces the row in one statement, which cannot write the older push's batch.
 * So a recipient whose batch says `inbox` and that has no row is superseded; fixOutcomes writes that into the batch.
 *
 * The process whose write stores an end first counts it for the metrics, by the statement's result. A worker counts the
 * outcomes that it saves or settles, except `inbox` and those that were saved before. A process that removes rows after
 * a receipt, a deletion or an answer counts the removed rows. A process that fixes outcomes counts the recipients that were `inbox`
 * or without an outcome, if its write came first. So a recipient is counted once in a run without faults. A process that
 * dies between a write and its count leaves recipients out, and so does a receipt over MQTT that comes when neither a
 * worker waits for it nor a row is there.
 */

/** Maximum batches whose outcomes are written at once: they share journal syncs. */
const BATCHES_AT_ONCE = 20;

/** Outcomes of a closed batch that something outside `outcomes` decides. */
const UNDECIDED: readonly number[] = [OUTCOMES.inbox, OUTCOMES.offered];
/** Ends that are counted when the inbox row is removed. */
const ROW_REMOVALS: readonly number[] = [OUTCOMES.delivered, OUTCOMES.gone];

const UNCLOSED = { $in: ['waiting', 'ready'] as const };
const NOT_FINAL = { 'work.state': 'closed', 'work.final': { $exists: false } } as const;

/** The end of a push before all of its devices have it. */
export type EndReason = 'expired' | 'deleted';

interface Tables {
  pushes: Collection<PushDocument>;
  batches: Collection<BatchDocument>;
  inbox: Collection<InboxDocument>;
}

/**
 * Filters the separate batches of a push by the range of their ids, which never change: a cursor over an index on the
 * state would miss batches that are closed while it reads.
 */
export function batchIdsOf(push: string) {
  return { _id: { $gte: batchId(push, 0), $lt: `${push}.` } } as const;
}

/** Filters a push's batches without fallbacks: each recipient is in one of them. */
export function primaryBatches(push: string) {
  return { ...batchIdsOf(push), 'work.fallback': { $exists: false } } as const;
}

/** Reads all primary batches of a push with their ids, one at a time. */
export async function* iterateBatches(
  { batches }: Pick<Tables, 'batches'>,
  push: Pick<PushDocument, '_id' | 'work' | 'notify'>,
): AsyncGenerator<{ id: string; work: Batch; isReported: boolean }> {
  if (push.work !== undefined) {
    yield { id: push._id, work: push.work, isReported: push.notify !== undefined };
    return;
  }
  for await (const { _id, work, notify } of batches.find(primaryBatches(push._id)))
    yield { id: _id, work, isReported: notify !== undefined };
}

/** An inbox row whose recipient has an outcome now; `app` is undefined if it is not known. */
export interface EndedInboxRow {
  app: string | undefined;
  rowId: string;
  push: string;
  work: string;
  position: number;
  /** Events of the batch are reported to webhooks. */
  notify?: true;
}

/**
 * The reason for the removal of a row: the device acknowledged after the batch was settled, or the device was deleted.
 */
type BitField = 'got' | 'gone';

/** Ends recipients that have an inbox row: writes the bit into the batch, then removes the row. */
export function createReceipts(db: Db, clock: Pick<Clock, 'now'>) {
  const pushes = db.collection<{ _id: string }>('pushes');
  const batches = db.collection<{ _id: string }>('batches');
  const inbox = db.collection<InboxDocument>('inbox');

  const recordBatched = createBatcher<EndedInboxRow, void>(
    'record-receipt',
    async (receipts) => {
      await recordEnds(receipts, 'got');
      return receipts.map(() => undefined);
    },
    { maxBatchSize: 1_000, maxInFlight: 2 },
  );

  async function recordEnds(rows: readonly EndedInboxRow[], field: BitField): Promise<void> {
    if (field === 'got') failpoint('receipt');
    await writeBits(rows, field);
    if (field === 'got') failpoint('receipt-recorded');
    const removed = await removeRows(inbox, rows);
    // Only MQTT has rows. Their number alone is known: if one was gone before, another app's may be counted instead.
    countByApp(rows.slice(0, removed), 'mqtt', field === 'got' ? 'delivered' : 'gone');
    if (field === 'got') processCounts.inboxRowsAcknowledged += removed;
  }

  async function writeBits(rows: readonly EndedInboxRow[], field: BitField): Promise<void> {
    const rowsByBatch = Map.groupBy(rows, ({ work }) => work);
    const positionsIn = (id: string) => (rowsByBatch.get(id) ?? []).map(({ position }) => position);
    const bitsFor = (id: string) => buildBits(positionsIn(id), field);
    const isReported = (id: string) => rowsByBatch.get(id)?.[0]?.notify === true;
    // Most batches have one recipient, so many of them get the same bits: one statement for all of these.
    const idsByBits = Map.groupBy(rowsByBatch.keys(), (id) =>
      JSON.stringify([isBatchId(id), isReported(id), bitsFor(id)]),
    );
    // One time for all of them, so that they share statements.
    const now = new Date(clock.now());
    const mark = buildNotifyOperators(now);
    const updates = [...idsByBits.values()].map(([id = '', ...others]) => ({
      isOfBatches: isBatchId(id),
      filter: { _id: { $in: [id, ...others] } },
      // $bit is no operator of a pipeline: the row says whether the batch has a mark to set.
      update: {
        $bit: bitsFor(id),
        ...(field === 'got' && { $min: buildReceiptTimes(positionsIn(id), now) }),
        ...(isReported(id) && mark),
      },
    }));
    await Promise.all(
      [pushes, batches].map(async (collection) => {
        const isBatchCollection = collection === batches;
        const operations = updates
          .filter(({ isOfBatches }) => isOfBatches === isBatchCollection)
          .map(({ isOfBatches: _, ...updateMany }) => ({ updateMany }));
        if (operations.length > 0) await collection.bulkWrite(operations, { ordered: false });
      }),
    );
  }

  return {
    /** Records receipts durably; concurrent calls share one journal sync. */
    async record(receipts: readonly EndedInboxRow[]): Promise<void> {
      await Promise.all(receipts.map((receipt) => recordBatched(receipt)));
    },

    /** Ends recipients as gone, durably: their device was deleted. */
    recordGone: (rows: readonly EndedInboxRow[]): Promise<void> => recordEnds(rows, 'gone'),

    /**
     * Records what the provider of a fallback has answered, durably, in the batch that the fallback is for.
     *
     * @param id of that batch or its push
     */
    recordFallback: (id: string, answers: FallbackAnswers): Promise<void> =>
      recordFallback(db, clock.now(), id, answers),
  };
}

/** A push or a batch, as far as answers of a fallback need it. */
interface BatchHolder {
  _id: string;
  work?: { tokens: string };
  notify?: NotifyEntry[];
}

/** Answers of the provider of a fallback, and the inbox rows that they end. */
export interface FallbackAnswers {
  app: string;
  push: string;
  /** Tokens of the recipients for which it has accepted the push. */
  sent: readonly string[];
  /** Those of `sent` whose rows end, and the ids of the rows. */
  done: readonly string[];
  rowIds: readonly string[];
  /** Outcomes of others that have no row, because their inbox was full. */
  refused: readonly { token: string; code: number }[];
}

async function recordFallback(
  db: Db,
  nowMs: number,
  id: string,
  answers: FallbackAnswers,
): Promise<void> {
  const holders: Collection<BatchHolder> = db.collection(isBatchId(id) ? 'batches' : 'pushes');
  const holder = await holders.findOne(
    { _id: id, 'work.final': { $exists: false } },
    { projection: { 'work.tokens': 1, 'notify.w': 1 } },
  );
  if (holder?.work === undefined) return;
  const update = buildFallbackUpdate(splitTokens(holder.work.tokens), answers, nowMs);
  const mark = holder.notify && buildNotifyOperators(new Date(nowMs));
  const fields = { ...update.$set, ...mark?.$set };
  await holders.updateOne(
    { _id: id },
    {
      ...update,
      ...(Object.keys(fields).length > 0 && { $set: fields }),
      ...(mark && { $inc: mark.$inc }),
    },
  );
  failpoint('fallback-recorded');
  const { app, push, rowIds } = answers;
  if (rowIds.length === 0) return;
  const inbox = db.collection<InboxDocument>('inbox');
  const { deletedCount } = await inbox.deleteMany({ _id: { $in: [...rowIds] }, push });
  countRecipients(app, 'mqtt', { sent: deletedCount });
}

function buildFallbackUpdate(
  tokens: readonly string[],
  { sent, done, refused }: FallbackAnswers,
  nowMs: number,
) {
  const positions = new Map(tokens.map((token, position) => [token, position]));
  // All erased recipients have one token.
  positions.delete(ERASED_TOKEN);
  const positionsOf = (some: readonly string[]) =>
    some.flatMap((token) => positions.get(token) ?? []);
  const codes = refused.flatMap(({ token, code }) => {
    const position = positions.get(token);
    return position === undefined ? [] : [[`work.refused.${position}`, code] as const];
  });
  const failures = failureMask(Uint8Array.from(codes, ([, code]) => code));
  return {
    $bit: {
      ...buildBits(positionsOf(sent), 'sent'),
      ...buildBits(positionsOf(done), 'done'),
      ...(failures > 0 && { 'work.failures': { or: failures } }),
    },
    ...(codes.length > 0 && { $set: Object.fromEntries(codes) }),
    ...(failures > 0 && { $min: { 'work.failedAt': new Date(nowMs) } }),
  };
}

/** Builds the bits to set in a batch for some of its recipients. */
function buildBits(
  positions: readonly number[],
  field: BitField | 'sent' | 'done',
): Record<string, { or: number }> {
  const words = toBitWords(positions);
  return Object.fromEntries([...words].map(([word, or]) => [`work.${field}.${word}`, { or }]));
}

/**
 * Removes rows, each only if it still names the push that has ended: a newer push of its collapse key stays. Returns how
 * many were there.
 */
async function removeRows(
  inbox: Collection<InboxDocument>,
  rows: readonly EndedInboxRow[],
): Promise<number> {
  const listRowIds = (some: readonly EndedInboxRow[]) => some.map(({ rowId }) => rowId);
  const [plainRows = [], collapsingRows = []] = [false, true].map((isCollapsing) =>
    rows.filter(({ rowId }) => isCollapseRowId(rowId) === isCollapsing),
  );
  const byPush = Map.groupBy(collapsingRows, ({ push }) => push);
  const filters: Filter<InboxDocument>[] = [...byPush].map(([push, some]) => {
    return { _id: { $in: listRowIds(some) }, push };
  });
  // The ids of plain rows name the push.
  if (plainRows.length > 0) filters.push({ _id: { $in: listRowIds(plainRows) } });
  if (filters.length === 0) return 0;
  const { deletedCount } = await inbox.bulkWrite(
    filters.map((filter) => ({ deleteMany: { filter } })),
    { ordered: false },
  );
  return deletedCount;
}

/** Closes all open batches of a push that has ended, under a new claim: a worker that held one is fenced off. */
export async function closeBatches(
  { pushes, batches }: Tables,
  push: string,
  reason: EndReason,
): Promise<void> {
  const close = {
    $set: { 'work.state': 'closed', 'work.claim': newClaimId(), 'work.ended': OUTCOMES[reason] },
    $currentDate: { 'work.closedAt': true },
  } as const;
  await pushes.updateOne({ _id: push, 'work.state': UNCLOSED }, close);
  await batches.updateMany({ push, 'work.state': UNCLOSED }, close);
}

/**
 * Writes the final outcome of every recipient of a push whose batches are closed, and counts them. Recipients that have
 * an inbox row end as `reason`, or as sent if the provider of a fallback accepted the push; recipients without a row,
 * a receipt or an outcome are superseded. The caller removes the rows afterwards. One write per batch, and none for a
 * batch that cannot change any more. The first writer's outcomes stay: a second process may read while rows are
 * already being removed, and a receipt that comes later changes nothing.
 */
export async function fixOutcomes(
  tables: Tables,
  push: string,
  reason: EndReason,
): Promise<FixedOutcomes> {
  // Rows before batches: a receipt is in the batch before its row goes.
  const rows = await findRowPositions(tables, push);
  const endContext = { rows, code: OUTCOMES[reason] };
  const projection = { app: 1, work: 1, 'notify.w': 1 };
  const storedPush = await tables.pushes.findOne({ _id: push }, { projection });
  if (storedPush === null) return { counts: {} };
  await writeFinalOutcomes(tables, storedPush, endContext);
  const fixedPush = await tables.pushes.findOne(
    { _id: push },
    { projection: { work: 1, ...NOTIFY_FIELDS } },
  );
  if (fixedPush === null) return { counts: {} };
  const { counts } = await sumOutcomes(tables, fixedPush);
  return { counts, ...(fixedPush.notify && { notify: fixedPush.notify }) };
}

/** The fields of a push that {@link markReplayed} takes, as a projection. */
export const NOTIFY_FIELDS = { 'notify.w': 1, 'notify.r': 1, 'notify.replayed': 1 } as const;

/**
 * Marks the batches of a push that ends, for the webhooks to which it was replayed while it was open: inbox rows from
 * before the replay do not say that their receipts set a mark. Of any other push it writes nothing.
 */
export async function markReplayed(
  { batches }: Pick<Tables, 'batches'>,
  push: string,
  notify: readonly NotifyEntry[] = [],
): Promise<void> {
  const webhooks = notify.flatMap(({ w, r, replayed }) => (r && replayed ? [w] : []));
  if (webhooks.length === 0) return;
  await markBatches(batches, primaryBatches(push), buildEndOfReplay(webhooks));
}

/**
 * Maximum batches that one statement marks: a push to a million devices has a thousand, which would take MongoDB
 * seconds.
 */
const BATCHES_PER_MARK = 100;

/**
 * Sets `notify` in batches, a hundred with each statement, so that none exceeds the timeout of its process. A repetition
 * sets it again.
 */
export async function markBatches(
  batches: Collection<BatchDocument>,
  filter: Filter<BatchDocument>,
  notify: Document,
): Promise<void> {
  const found = await batches.find(filter, { projection: { _id: 1 } }).toArray();
  for (let from = 0; from < found.length; from += BATCHES_PER_MARK) {
    const ids = found.slice(from, from + BATCHES_PER_MARK).map(({ _id }) => _id);
    await batches.updateMany({ _id: { $in: ids } }, [{ $set: { notify } }]);
  }
}

/** Final counts of a push, and the webhooks that it is reported to, read after the outcomes were written. */
type FixedOutcomes = { counts: OutcomeCounts } & Pick<PushDocument, 'notify'>;

/** Recipients of a push by outcome. */
interface OutcomeSum {
  counts: OutcomeCounts;
  /** A later receipt or a missing row could change them: the outcomes must be fixed before they are counted. */
  mayChange: boolean;
}

/** Counts the recipients of a push as its batches know them. */
export async function sumOutcomes(
  tables: Pick<Tables, 'batches'>,
  push: Pick<PushDocument, '_id' | 'work'>,
): Promise<OutcomeSum> {
  const sum: OutcomeSum = { counts: {}, mayChange: false };
  for await (const { work } of iterateBatches(tables, push)) {
    const codes = outcomeCodes(work);
    addOutcomes(sum.counts, codes);
    sum.mayChange ||= mayChange(work, codes);
  }
  return sum;
}

interface EndContext {
  rows: PositionBits;
  /** The outcome of a recipient that still has a row, or was offered to a fallback that did not end in time. */
  code: number;
}

async function writeFinalOutcomes(
  tables: Tables,
  push: Pick<PushDocument, '_id' | 'app' | 'work' | 'notify'>,
  endContext: EndContext,
): Promise<void> {
  let writes: FinalWrite[] = [];
  async function flush(): Promise<void> {
    const pendingWrites = writes;
    writes = [];
    await Promise.all(pendingWrites.map((write) => writeAndCount(tables, write)));
  }
  for await (const { id, work, isReported } of iterateBatches(tables, push)) {
    const outcomes = computeFinalOutcomes(id, work, endContext);
    if (outcomes !== undefined) writes.push({ app: push.app, id, work, outcomes, isReported });
    if (writes.length === BATCHES_AT_ONCE) await flush();
  }
  await flush();
}

/** A batch as it was read, and its final outcomes. */
interface FinalWrite {
  app: string;
  id: string;
  work: Batch;
  outcomes: Uint8Array;
  /** Events of the batch are reported to webhooks. */
  isReported: boolean;
}

/** Writes final outcomes, and counts the recipients that this has ended unless another process was first. */
async function writeAndCount({ pushes, batches }: Tables, write: FinalWrite): Promise<void> {
  const { app, id, work, outcomes, isReported } = write;
  const filter = { _id: id, ...NOT_FINAL };
  const fields = { 'work.outcomes': new Binary(outcomes), 'work.final': true as const };
  const update = isReported ? [{ $set: { ...fields, notify: NOTIFY_MARK } }] : { $set: fields };
  // One statement each: a statement for many does not return which of them it wrote.
  const { modifiedCount } = isBatchId(id)
    ? await batches.updateOne(filter, update)
    : await pushes.updateOne(filter, update);
  if (modifiedCount !== 1) return;
  const ended = selectEndedByPush(work, outcomes);
  countEnds(app, work.channel, ended);
}

/** Returns the final outcomes of recipients that were not counted when they were stored, or with the removal of their row. */
function selectEndedByPush(
  { channel, outcomes: stored, done = {} }: Batch,
  outcomes: Uint8Array,
): Uint8Array {
  const codes = toBytes(stored);
  const isOpen = (at: number) => isOpenOutcome(codes[at] ?? OUTCOMES.pending);
  const hasRow = (code: number) => channel === 'mqtt' && ROW_REMOVALS.includes(code);
  return outcomes.filter((code, at) => isOpen(at) && !hasRow(code) && !hasBit(done, at));
}

/** Returns the outcomes of a closed batch without any that is open; undefined if nothing can change the stored ones. */
function computeFinalOutcomes(
  id: string,
  work: Batch,
  { rows, code }: EndContext,
): Uint8Array | undefined {
  const outcomes = outcomeCodes(work);
  if (work.state !== 'closed' || !mayChange(work, outcomes)) return undefined;
  const rowPositions = rows.get(id) ?? {};
  markSuperseded(outcomes, (position) => !hasBit(rowPositions, position));
  return outcomes.map((outcome) => (UNDECIDED.includes(outcome) ? code : outcome));
}

/**
 * Checks whether anything outside `outcomes` still decides how a recipient ended. A batch with a deleted device counts: the
 * device's receipt may come after its deletion.
 */
function mayChange(batch: Batch, outcomes: Uint8Array): boolean {
  const { final, ended, lateReceipts, gone, sent, refused } = batch;
  if (final === true) return false;
  if (lateReceipts === true) return true;
  if ([ended, gone, sent, refused].some((field) => field !== undefined)) return true;
  return outcomes.some((outcome) => UNDECIDED.includes(outcome));
}
