import { setTimeout as pause } from 'node:timers/promises';
import { hasBit } from '@carillon/core/batch';
import type { Channel } from '@carillon/core/channels';
import { failpoint } from '@carillon/core/failpoint';
import { isBatchId } from '@carillon/core/ids';
import { countOutcomes, failureCode, OUTCOMES, type OutcomeCounts } from '@carillon/core/outcomes';
import { countRecipients, processCounts } from '@carillon/core/process-counts';
import type { Span, Tracer } from '@carillon/core/tracing';
import type { Dispatcher } from '@carillon/presence/dispatcher';
import type { Producers } from '@carillon/queue/producers';
import type { SettledBatch, Settlement } from '@carillon/store/batch-table';
import type { DeferredEntry } from '@carillon/store/documents';
import { rowId } from '@carillon/store/inbox';
import { isSuspected } from '@carillon/store/lapsed-claims';
import { isOutage } from '@carillon/store/mongo-errors';
import type { SendablePush } from '@carillon/store/sendable-push';
import type { Store } from '@carillon/store/store';
import type { GetAppSettings } from './app-settings.ts';
import { type BatchOutcomes, createBatchOutcomes } from './batch-outcomes.ts';
import { describeEnd, startBatchSpan } from './batch-span.ts';
import type { Deferral, DeliverByChannel, Delivery, LeasedBatch, Rest } from './channel.ts';
import { createOutcomeCounter, type OutcomeCounter } from './count-outcomes.ts';
import { findEarlierReceipts } from './earlier-receipts.ts';
import { createAnswerReport, scheduleFallback, skipDelivered } from './fallback.ts';
import { createSendGate, type Leases, type PushSnapshot, type SendGate } from './send-gate.ts';
import { createSuspectedBatch, type SuspectedBatch } from './suspected-batch.ts';
import { writeWhileHeld } from './write-while-held.ts';

/** Delay before a batch of a channel that this process does not deliver over is due again. */
const OTHER_WORKER_DELAY_MS = 1_000;
/** Delay before a batch is due again whose earlier receipts could not be read. */
const REDIS_RETRY_MS = 1_000;
/** Delay before a batch is due again after an outage of MongoDB or Redis. */
const OUTAGE_RETRY_MS = 1_000;
/**
 * Pause before a recipient is tried again that may have ended or blocked its worker: it gives all other batches time.
 */
const REPEAT_PAUSE_MS = 1_000;
/** Maximum recipients of a suspected batch that are tried before another batch gets a turn. */
const TRIED_PER_TURN = 20;
/** Delay of a suspected batch while another one has its turn. */
const OTHER_TURN_MS = 1_000;
/** Outcomes of recipients whose inbox row, if an earlier attempt wrote one, is obsolete. */
const OUTCOMES_WITHOUT_ROW: readonly number[] = [
  OUTCOMES.delivered,
  OUTCOMES.superseded,
  failureCode('worker-failed'),
];

/** Resources of the process that delivering a batch uses. */
export interface DeliveryResources {
  store: Store;
  producers: Producers;
  dispatcher: Dispatcher;
  leases: Leases;
  /** Delivery over each channel; absent for a channel whose jobs the process doesn't take. */
  channels: Partial<Record<Channel, DeliverByChannel>>;
  getAppSettings: GetAppSettings;
  retentionMs: number;
  /** Records a span for each batch of a traced push. */
  tracer?: Tracer | undefined;
  /** A suspected batch is in progress: no other is, so that the end of the process counts for one recipient. */
  suspectedTurn: { isTaken: boolean };
  /** The process is stopping: batches in progress are released, and no other is claimed. */
  isStopping(): boolean;
  onError(error: unknown): void;
  /** Measures the milliseconds from acceptance to receipt of a batch's recipients, 0 for those without a receipt. */
  observeLatencies(channel: Channel, latenciesMs: Uint32Array): void;
}

/** Result of one run, for the log and the metrics. */
export interface BatchResult {
  work: string;
  end: 'settled' | 'given back' | 'lost' | 'not taken';
  push?: string;
  n?: number;
  /** Recipients by outcome; recipients without one yet, of a released batch, count as `pending`. */
  outcomes?: OutcomeCounts;
  /** Context of the batch's span, if the push is traced. */
  trace?: string;
}

/** One batch in progress. */
interface Run {
  push: SendablePush;
  batch: LeasedBatch;
  batchOutcomes: BatchOutcomes;
  outcomeCounter: OutcomeCounter;
  sendGate: SendGate;
  span: Span | undefined;
  /** Undefined if the batch is not suspected of ending its workers. */
  suspected: SuspectedBatch | undefined;
  /** Of a fallback: writes the provider's answers into the batch that it is for. */
  reportAnswers: (() => Promise<void>) | undefined;
}

/** Delivers one batch: claims it, reads its push, sends over its channel, settles it. */
export async function deliverBatch(resources: DeliveryResources, id: string): Promise<BatchResult> {
  const { leases } = resources;
  // Redis may return one more job while the process stops. The reconciler finds its batch.
  const batch = resources.isStopping() ? undefined : await leases.claim(id);
  if (batch === undefined) return { work: id, end: 'not taken' };
  return deliverLeased(resources, batch).finally(() => leases.stopRenewing(batch));
}

async function deliverLeased(
  resources: DeliveryResources,
  batch: LeasedBatch,
): Promise<BatchResult> {
  const { store } = resources;
  const readAt = batch.sendable === undefined ? performance.now() : batch.claimedAt;
  const push = batch.sendable ?? (await readPush(store, batch.push));
  if (push === undefined) {
    // An orphan would be claimed again and again.
    await store.batches.removeOrphan(batch);
    return { work: batch.id, end: 'not taken', push: batch.push };
  }
  const span = startBatchSpan(resources.tracer, push, batch);
  if (span === undefined) return deliverPush(resources, batch, { push, readAt }, span);
  let result: BatchResult | undefined;
  try {
    result = await deliverPush(resources, batch, { push, readAt }, span);
    return { ...result, trace: span.traceparent };
  } finally {
    span.end(describeEnd(result));
  }
}

async function deliverPush(
  resources: DeliveryResources,
  batch: LeasedBatch,
  { push, readAt }: PushSnapshot,
  span: Span | undefined,
): Promise<BatchResult> {
  failpoint('claim');
  const { store } = resources;
  const batchOutcomes = createBatchOutcomes(store.clock, push, batch);
  const receipts = await findEarlierReceipts(resources, batch);
  if (receipts === undefined) {
    await store.batchTable.releaseClaim(batch, {
      delayMs: REDIS_RETRY_MS,
      hasLapsed: batch.hasLapsed(),
    });
    return { work: batch.id, end: 'given back', push: batch.push };
  }
  for (const { position, ageMs } of receipts) batchOutcomes.recordReceipt(position, ageMs);
  const sendGate = createSendGate(resources, { push, readAt }, batch, batchOutcomes);
  const suspected = isSuspected(batch.work)
    ? createSuspectedBatch(batchOutcomes, batch.work)
    : undefined;
  const outcomeCounter = createOutcomeCounter(resources.observeLatencies, push.app, batch.work);
  const reportAnswers = batch.work.fallback
    ? createAnswerReport(resources, push, batch, batchOutcomes)
    : undefined;
  const run = {
    push,
    batch,
    batchOutcomes,
    outcomeCounter,
    sendGate,
    span,
    suspected,
    reportAnswers,
  };
  try {
    return await deliverRun(resources, run);
  } catch (error) {
    // It would wait for the end of its lease, and its lapsed claim would count against it.
    if (isOutage(error)) await releaseClaim(resources, run, { retryAfterMs: OUTAGE_RETRY_MS });
    throw error;
  }
}

/** Delivers a batch whose outcomes and receipts so far are known, and settles or releases it. */
async function deliverRun(resources: DeliveryResources, run: Run): Promise<BatchResult> {
  const { push, batch, batchOutcomes, sendGate, suspected } = run;
  if (batch.work.fallback) await skipDelivered(resources.store, push, batch.work, batchOutcomes);
  await sendGate.skipSuperseded();
  const rest = await (suspected === undefined
    ? deliverOverChannel(resources, run)
    : deliverInTurn(resources, { ...run, suspected }));
  // The worker that holds the claim now does all that is left to do.
  if (batch.isClaimLost()) return createResult('lost', batch, batchOutcomes);
  if (rest !== undefined) {
    const isReleased = await releaseClaim(resources, run, rest);
    return createResult(isReleased ? 'given back' : 'lost', batch, batchOutcomes);
  }
  const { tokens, outcomes } = batchOutcomes;
  const unreached = await scheduleFallback(resources, push, batch, tokens, outcomes);
  for (const [position, token] of tokens.entries())
    if (unreached.has(token)) outcomes[position] = failureCode('inbox-full');
  // Saved before they are reported: the next claim would take a row that has ended for a newer push's.
  if (run.reportAnswers !== undefined) await saveProgress(resources, run, undefined);
  if (batch.isClaimLost()) return createResult('lost', batch, batchOutcomes);
  const settlement = batchOutcomes.toSettlement();
  const result = createResult('settled', batch, batchOutcomes);
  await settleBatch(resources, run, settlement);
  return result;
}

/**
 * Releases the claim. Outcomes that are not saved yet are saved before: the batch may wait for its retry for hours.
 *
 * @returns false if another worker has the batch
 */
async function releaseClaim(
  resources: DeliveryResources,
  run: Run,
  { retryAfterMs: delayMs, channel }: Rest,
): Promise<boolean> {
  const { batch, batchOutcomes, outcomeCounter } = run;
  if (!outcomeCounter.hasCounted(batchOutcomes.outcomes))
    await saveProgress(resources, run, undefined);
  return writeWhileHeld(resources, batch, () =>
    resources.store.batchTable.releaseClaim(batch, {
      delayMs,
      hasLapsed: batch.hasLapsed(),
      ...(channel !== undefined && { channel }),
    }),
  );
}

async function readPush(
  { pushes }: Pick<Store, 'pushes'>,
  id: string,
): Promise<SendablePush | undefined> {
  return (await pushes.readForSending([id])).get(id);
}

function createResult(
  end: BatchResult['end'],
  { id, push, work: batchWork }: LeasedBatch,
  { outcomes }: Pick<BatchOutcomes, 'outcomes'>,
): BatchResult & { outcomes: OutcomeCounts } {
  return {
    work: id,
    end,
    push,
    n: batchWork.n,
    outcomes: countOutcomes(outcomes),
  };
}

/**
 * Delivers some recipients of a suspected batch one after the other, unless another one has its turn. Returns as
 * {@link deliverOverChannel} does.
 */
async function deliverInTurn(
  resources: DeliveryResources,
  run: Run & { suspected: SuspectedBatch },
): Promise<Rest | undefined> {
  const { suspectedTurn } = resources;
  if (suspectedTurn.isTaken) return { retryAfterMs: OTHER_TURN_MS };
  suspectedTurn.isTaken = true;
  try {
    return await deliverOneByOne(resources, run);
  } finally {
    suspectedTurn.isTaken = false;
  }
}

/** Delivers recipients one after the other, and saves before and after each. */
async function deliverOneByOne(
  resources: DeliveryResources,
  run: Run & { suspected: SuspectedBatch },
): Promise<Rest | undefined> {
  const { batch, batchOutcomes, suspected } = run;
  const { clock } = resources.store;
  if (suspected.failCause()) await saveProgress(resources, run, undefined);
  if (suspected.isRepeated()) await pause(REPEAT_PAUSE_MS);
  const mayGoOn = () => !batch.isClaimLost() && !batch.hasLapsed() && !resources.isStopping();
  const due = suspected.listDue(clock.now());
  const rest: Rest = { retryAfterMs: due.length > TRIED_PER_TURN ? 0 : Number.POSITIVE_INFINITY };
  for (const position of due.slice(0, TRIED_PER_TURN)) {
    if (!mayGoOn()) return { retryAfterMs: 0 };
    suspected.beginTry(position);
    await saveProgress(resources, run, undefined);
    if (batch.isClaimLost()) return { retryAfterMs: 0 };
    const restOfOne = await deliverOverChannel(resources, run);
    if (restOfOne !== undefined) {
      const { retryAfterMs } = rest;
      Object.assign(rest, restOfOne);
      rest.retryAfterMs = Math.min(retryAfterMs, restOfOne.retryAfterMs);
    }
    suspected.endTry(batch.hasLapsed());
    await saveProgress(resources, run, undefined);
  }
  if (batchOutcomes.pending.size === 0) return undefined;
  const untilDueMs = suspected.untilDueMs(clock.now());
  return { ...rest, retryAfterMs: Math.min(rest.retryAfterMs, untilDueMs) };
}

/**
 * Saves the outcomes so far, unless the claim was lost, and counts those that are new.
 *
 * @param deferred if undefined, they stay as they were saved last
 */
async function saveProgress(
  resources: DeliveryResources,
  run: Run,
  deferred: ReadonlyMap<number, Deferral> | undefined,
  mayBeReceived?: Parameters<Delivery['save']>[1],
): Promise<void> {
  const { batch, batchOutcomes, outcomeCounter, suspected } = run;
  const given = deferred && toEntries(deferred, batchOutcomes.limitErrorText);
  const entries = suspected?.mergeDeferred(given) ?? given;
  failpoint('save');
  const saved = await writeWhileHeld(resources, batch, async () => {
    const progress = batchOutcomes.toSettlement();
    const isSaved = await resources.store.batchTable.saveOutcomes({
      ...progress,
      ...(entries !== undefined && { deferred: entries }),
      ...(suspected !== undefined && { trying: suspected.trying() }),
      hasLapsed: batch.hasLapsed(),
    });
    return isSaved ? progress : undefined;
  });
  failpoint('saved');
  if (saved === undefined) return batch.markClaimLost();
  outcomeCounter.count(saved, mayBeReceived);
  await run.reportAnswers?.();
}

/** Returns what is left of the batch; undefined if every recipient has an outcome. */
async function deliverOverChannel(
  resources: DeliveryResources,
  run: Run,
): Promise<Rest | undefined> {
  const { store, channels } = resources;
  const { push, batch, batchOutcomes, sendGate, span } = run;
  if (!store.pushes.isSendable(push)) return recordUnsendable(push, batchOutcomes);
  // A worker that takes the channel's queue delivers it, or one of the newer release that made the batch.
  const deliver = channels[batch.work.channel];
  if (deliver === undefined) return { retryAfterMs: OTHER_WORKER_DELAY_MS };
  failpoint('deliver', push.data);
  const result = await deliver({
    push,
    batch,
    span,
    ...batchOutcomes,
    ...sendGate,
    save: (deferred, mayBeReceived) => saveProgress(resources, run, deferred, mayBeReceived),
  });
  if (batchOutcomes.pending.size === 0) return undefined;
  const currentPush = await readPush(store, push._id);
  if (currentPush === undefined || !store.pushes.isSendable(currentPush))
    return recordUnsendable(currentPush ?? push, batchOutcomes);
  return result.done ? { retryAfterMs: 0 } : result;
}

function toEntries(
  deferred: ReadonlyMap<number, Deferral>,
  limitErrorText: (text: string) => string,
): DeferredEntry[] {
  return [...deferred].map(([position, { retryAtMs, retries, providerError }]) => {
    return providerError === undefined
      ? [position, retryAtMs, retries]
      : [position, retryAtMs, retries, limitErrorText(providerError)];
  });
}

/** Ends the rest: as expired, or as deleted. A deletion closes the batch itself, which fences this write. */
function recordUnsendable(push: SendablePush, batchOutcomes: BatchOutcomes): undefined {
  batchOutcomes.recordRemaining(push.state === 'deleted' ? OUTCOMES.deleted : OUTCOMES.expired);
  return undefined;
}

/**
 * Closes a batch for good, counts the outcomes that were not saved before, then removes obsolete inbox rows. A row is
 * obsolete if its recipient's receipt came meanwhile. It is also obsolete if an earlier attempt wrote it, and this
 * attempt or a newer push of the collapse key has reached the recipient. If the claim was lost, nothing is counted or
 * removed.
 */
async function settleBatch(
  resources: DeliveryResources,
  { push, batch, batchOutcomes, outcomeCounter, span }: Run,
  settlement: Settlement,
): Promise<void> {
  const { store, producers, retentionMs } = resources;
  const { outcomes } = settlement;
  const isPushComplete = !isBatchId(batch.id) && !outcomes.some(isUndecided);
  failpoint('settle');
  const settled = await writeWhileHeld(resources, batch, () =>
    store.batchTable.settle({
      ...settlement,
      ...(batch.notify && { notify: batch.notify }),
      ...(span !== undefined && { trace: span.traceparent }),
      ...(isPushComplete &&
        push.state === 'open' && {
          finish: { purgeAt: store.pushCompletion.computePurgeAt(retentionMs) },
        }),
    }),
  );
  if (settled === undefined) return;
  failpoint('settled');
  outcomeCounter.count(settlement);
  await removeStaleRows(store, push, batchOutcomes, { batch, settled });
  if (!isPushComplete && mayCompletePush(batch, outcomes, settled))
    void producers.checkCompletion([push._id]);
}

/** Removes the obsolete rows of a settled batch, and counts those of receipts that came before the settlement. */
async function removeStaleRows(
  { inbox }: Pick<Store, 'inbox'>,
  push: SendablePush,
  { tokens, outcomes }: Pick<BatchOutcomes, 'tokens' | 'outcomes'>,
  { batch, settled: { got, done = {} } }: { batch: LeasedBatch; settled: SettledBatch },
): Promise<void> {
  const mayHaveRow = batch.work.channel === 'mqtt' && batch.work.tries > 1;
  const collapse = push.collapse === undefined ? {} : { collapse: push.collapse };
  const acknowledgedRows: string[] = [];
  const obsoleteRows: string[] = [];
  for (let position = 0; position < tokens.length; position += 1) {
    const token = tokens[position] ?? '';
    const isInInbox = outcomes[position] === OUTCOMES.inbox;
    const isObsolete = mayHaveRow && OUTCOMES_WITHOUT_ROW.includes(outcomes[position] ?? 0);
    const isAcknowledged = isInInbox && hasBit(got, position);
    // The fallback has ended the row, and this attempt has written it again.
    const hasFallback = isInInbox && hasBit(done, position);
    if (!isAcknowledged && !hasFallback && !isObsolete) continue;
    const rows = isAcknowledged ? acknowledgedRows : obsoleteRows;
    rows.push(rowId({ token, push: push._id, ...collapse }));
  }
  if (acknowledgedRows.length > 0) {
    const removed = await inbox.remove(push._id, acknowledgedRows);
    countRecipients(push.app, 'mqtt', { delivered: removed });
    processCounts.inboxRowsAcknowledged += removed;
  }
  if (obsoleteRows.length > 0) await inbox.remove(push._id, obsoleteRows);
}

/**
 * Checks whether this settlement may complete the push. A recipient with an inbox row, or with a fallback, has its push
 * checked when these end, unless that was before the batch was closed.
 */
function mayCompletePush(
  { id }: LeasedBatch,
  outcomes: Uint8Array,
  { got, sent = {}, refused = {} }: SettledBatch,
): boolean {
  if (isBatchId(id)) return true;
  const isDecided = (position: number) =>
    hasBit(got, position) || hasBit(sent, position) || position in refused;
  return outcomes.every((code, position) => !isUndecided(code) || isDecided(position));
}

/** Checks whether something outside the batch decides how a recipient ends: its inbox row, or a fallback. */
function isUndecided(code: number): boolean {
  return code === OUTCOMES.inbox || code === OUTCOMES.offered;
}
