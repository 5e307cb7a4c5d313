import { hasBit, joinTokens, splitTokens } from '@carillon/core/batch';
import type { Channel } from '@carillon/core/channels';
import { fallbackBatchId, isBatchId } from '@carillon/core/ids';
import { countOutcomes, OUTCOMES, type OutcomeCounts } from '@carillon/core/outcomes';
import { countFailures, countRecipients, processCounts } from '@carillon/core/process-counts';
import {
  countAttributes,
  type Span,
  type SpanAttributes,
  type Tracer,
} from '@carillon/core/tracing';
import type { Dispatcher } from '@carillon/presence/dispatcher';
import type { Producers } from '@carillon/queue/producers';
import { toBytes } from '@carillon/store/bytes';
import type { Clock } from '@carillon/store/clock';
import type { DeferredEntry, ProviderErrorEntry } from '@carillon/store/documents';
import type { Settlement } from '@carillon/store/final-outcomes';
import { rowId } from '@carillon/store/inbox';
import type { SendablePush } from '@carillon/store/sendable-push';
import type { Store } from '@carillon/store/store';
import type { GetAppSettings } from './app-settings.ts';
import type { Deferral, DeliverByChannel, Delivery, LeasedBatch } from './channel.ts';
import { createErrorTexts } from './error-texts.ts';
import { createSendGate, type Leases, type PushSnapshot, type SendGate } from './send-gate.ts';

/** Delay before a batch of a channel that this process does not deliver over is due again. */
const OTHER_WORKER_DELAY_MS = 1_000;
/** Outcomes of recipients whose inbox row, if an earlier attempt wrote one, is obsolete. */
const OUTCOMES_WITHOUT_ROW: readonly number[] = [OUTCOMES.delivered, OUTCOMES.superseded];

/** Resources of the process that delivering a batch uses. */
export interface DeliveryResources {
  store: Store;
  producers: Producers;
  dispatcher: Dispatcher;
  leases: Leases;
  /** Absent: the process takes no jobs of the channel. */
  channels: Partial<Record<Channel, DeliverByChannel>>;
  getAppSettings: GetAppSettings;
  retentionMs: number;
  /** Records a span for each batch of a traced push. */
  tracer?: Tracer | undefined;
  /** The process is stopping: batches in progress are given back. */
  isStopping(): boolean;
  /** Measures the milliseconds from acceptance to receipt of a batch's recipients, 0 for those without a receipt. */
  observeLatencies(channel: Channel, latenciesMs: Uint32Array): void;
}

/** Result of one run, for the log and the metrics. */
export interface BatchResult {
  work: string;
  end: 'settled' | 'given back' | 'lost' | 'not taken';
  push?: string;
  n?: number;
  /** Recipients by outcome; recipients without one yet, of a batch that was given back, count as `owed`. */
  outcomes?: OutcomeCounts;
  /** Context of the batch's span, if the push is traced. */
  trace?: string;
}

/** Outcomes and latencies of a batch in progress. */
interface BatchOutcomes
  extends Pick<
    Delivery,
    | 'tokens'
    | 'inFlight'
    | 'recordOutcome'
    | 'recordReceipt'
    | 'expectLateReceipts'
    | 'isSuperseded'
  > {
  pending: Set<number>;
  recordRemaining(outcome: number): void;
  deliveredPositions(): number[];
  limitErrorText(text: string): string;
  toSettlement(): Settlement;
}

/** One batch in progress. */
interface Run {
  push: SendablePush;
  batch: LeasedBatch;
  batchOutcomes: BatchOutcomes;
  sendGate: SendGate;
  span: Span | undefined;
}

/** Delivers one batch: claims it, reads its push, sends over its channel, settles it. */
export async function deliverBatch(resources: DeliveryResources, id: string): Promise<BatchResult> {
  const batch = await resources.leases.claim(id);
  if (batch === undefined) return { work: id, end: 'not taken' };
  try {
    return await deliverLeased(resources, batch);
  } finally {
    resources.leases.stopRenewing(batch);
  }
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

function startBatchSpan(
  tracer: Tracer | undefined,
  push: SendablePush,
  { claimedAt, work: { channel, n } }: LeasedBatch,
): Span | undefined {
  return tracer?.continueTrace('deliver batch', push.trace, claimedAt, {
    'carillon.push.id': push._id,
    'carillon.channel': channel,
    'carillon.recipients': n,
  });
}

/** Returns the attributes of a batch's end; it failed if there is no result. */
function describeEnd(result: BatchResult | undefined): SpanAttributes {
  if (result === undefined) return { 'error.type': 'failed' };
  return {
    'carillon.batch.end': result.end,
    ...countAttributes('outcome', result.outcomes ?? {}),
  };
}

async function deliverPush(
  resources: DeliveryResources,
  batch: LeasedBatch,
  { push, readAt }: PushSnapshot,
  span: Span | undefined,
): Promise<BatchResult> {
  const { store } = resources;
  const batchOutcomes = createBatchOutcomes(store.clock, push, batch);
  for (const position of await findEarlierReceipts(resources, batch))
    batchOutcomes.recordReceipt(position);
  if (batch.work.fallback) await skipDelivered(store, push, batchOutcomes);
  const sendGate = createSendGate(resources, { push, readAt }, batch, batchOutcomes);
  await sendGate.skipSuperseded();
  const run = { push, batch, batchOutcomes, sendGate, span };
  const retry = await deliverOverChannel(resources, run);
  // The worker that holds the claim now does all that is left to do.
  if (batch.isClaimLost()) return createResult('lost', batch, batchOutcomes);
  if (retry !== undefined) {
    await store.batchTable.releaseClaim(batch, retry.afterMs, batchOutcomes.deliveredPositions());
    return createResult('given back', batch, batchOutcomes);
  }
  const settlement = batchOutcomes.toSettlement();
  await scheduleFallback(resources, push, batch, batchOutcomes.tokens, settlement.outcomes);
  const result = createResult('settled', batch, batchOutcomes);
  if (await settleBatch(resources, run, settlement))
    countSettled(resources, batch, result.outcomes, settlement);
  return result;
}

/** Counts the recipients that a settlement has ended. Those of a fallback have their outcome in another batch. */
function countSettled(
  { observeLatencies }: Pick<DeliveryResources, 'observeLatencies'>,
  { work }: LeasedBatch,
  counts: OutcomeCounts,
  { outcomes, latenciesMs }: Pick<Settlement, 'outcomes' | 'latenciesMs'>,
): void {
  if (work.fallback) return;
  countRecipients(work.channel, counts);
  if (counts.failed !== undefined) countFailures(outcomes);
  observeLatencies(work.channel, latenciesMs);
}

async function readPush(
  { pushes }: Pick<Store, 'pushes'>,
  id: string,
): Promise<SendablePush | undefined> {
  return (await pushes.readForSending([id])).get(id);
}

/** Reads the positions that the previous claim's worker is known to have reached. */
async function findEarlierReceipts(
  { dispatcher }: Pick<DeliveryResources, 'dispatcher'>,
  { work: { before: previousClaim, channel } }: LeasedBatch,
): Promise<number[]> {
  if (previousClaim === undefined) return [];
  const reading = dispatcher.readReplies(previousClaim.reply, previousClaim.claim);
  // Without Redis a provider gets the remaining recipients once more now, rather than later.
  const results = await (channel === 'mqtt' ? reading : reading.catch(() => new Map()));
  return [...results].flatMap(([position, result]) =>
    result === 'acknowledged' ? [position] : [],
  );
}

function createResult(
  end: BatchResult['end'],
  { id, push, work: batchWork }: LeasedBatch,
  batchOutcomes: Pick<BatchOutcomes, 'toSettlement'>,
): BatchResult & { outcomes: OutcomeCounts } {
  return {
    work: id,
    end,
    push,
    n: batchWork.n,
    outcomes: countOutcomes(batchOutcomes.toSettlement().outcomes),
  };
}

/** Ends recipients of a fallback that have acknowledged since, or got a newer push of the collapse key. */
async function skipDelivered(
  { inbox }: Pick<Store, 'inbox'>,
  push: SendablePush,
  batchOutcomes: BatchOutcomes,
): Promise<void> {
  const pending = [...batchOutcomes.pending];
  const stillPending = await inbox.filterPending(
    push,
    pending.map((position) => batchOutcomes.tokens[position] ?? ''),
  );
  for (const position of pending) {
    if (!stillPending.has(batchOutcomes.tokens[position] ?? ''))
      batchOutcomes.recordOutcome(position, OUTCOMES.superseded);
  }
}

/** Returns undefined when every recipient has an outcome, else when the rest is tried again. */
async function deliverOverChannel(
  { store, channels }: DeliveryResources,
  { push, batch, batchOutcomes, sendGate, span }: Run,
): Promise<{ afterMs: number } | undefined> {
  if (!store.pushes.isSendable(push)) return recordUnsendable(push, batchOutcomes);
  // A worker that takes the channel's queue delivers it, or one of the newer release that made the batch.
  const deliver = channels[batch.work.channel];
  if (deliver === undefined) return { afterMs: OTHER_WORKER_DELAY_MS };
  const result = await deliver({
    push,
    batch,
    span,
    ...batchOutcomes,
    ...sendGate,
    async save(deferred) {
      const isSaved = await store.batchTable.saveOutcomes({
        ...batchOutcomes.toSettlement(),
        deferred: toEntries(deferred, batchOutcomes.limitErrorText),
      });
      if (!isSaved) batch.markClaimLost();
    },
  });
  if (batchOutcomes.pending.size === 0) return undefined;
  const currentPush = await readPush(store, push._id);
  if (currentPush === undefined || !store.pushes.isSendable(currentPush))
    return recordUnsendable(currentPush ?? push, batchOutcomes);
  return { afterMs: result.done ? 0 : result.retryAfterMs };
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

/** Creates the outcomes of a batch; outcomes and receipts that are saved already are kept. */
function createBatchOutcomes(
  clock: Pick<Clock, 'now'>,
  push: SendablePush,
  { id, claim, work }: LeasedBatch,
): BatchOutcomes {
  const tokens = splitTokens(work.tokens);
  const outcomes = new Uint8Array(tokens.length);
  const latenciesMs = new Uint32Array(tokens.length);
  const pending = new Set<number>(tokens.keys());
  const errorPositions = new Map<string, number[]>(
    work.words?.map(([providerError, positions]) => [providerError, [...positions]]),
  );
  const limitErrorText = createErrorTexts(work);
  const startedAt = (push.dueAt ?? push.acceptedAt).getTime();
  let expectsLateReceipts = false;

  function recordOutcome(position: number, outcome: number, providerError?: string): void {
    if (pending.has(position)) setOutcome(position, outcome, providerError);
  }

  function setOutcome(position: number, outcome: number, providerError?: string): void {
    pending.delete(position);
    outcomes[position] = outcome;
    if (outcome === OUTCOMES.delivered)
      latenciesMs[position] = Math.max(1, clock.now() - startedAt);
    if (providerError === undefined) return;
    const text = limitErrorText(providerError);
    const positions = errorPositions.get(text);
    if (positions === undefined) errorPositions.set(text, [position]);
    else positions.push(position);
  }

  function recordReceipt(position: number): void {
    if (outcomes[position] === OUTCOMES.delivered) return;
    setOutcome(position, OUTCOMES.delivered);
  }

  /** Leaves out errors about recipients whose receipt came afterwards. */
  function collectProviderErrors(): ProviderErrorEntry[] {
    return [...errorPositions].flatMap(([providerError, positions]): ProviderErrorEntry[] => {
      const undelivered = positions.filter((position) => outcomes[position] !== OUTCOMES.delivered);
      return undelivered.length === 0 ? [] : [[providerError, undelivered]];
    });
  }

  const savedOutcomes = toBytes(work.outcomes);
  for (const position of tokens.keys()) {
    const savedOutcome = hasBit(work.got ?? {}, position)
      ? OUTCOMES.delivered
      : savedOutcomes[position];
    if (savedOutcome === undefined || savedOutcome === OUTCOMES.owed) continue;
    pending.delete(position);
    outcomes[position] = savedOutcome;
  }
  return {
    tokens,
    pending,
    inFlight: new Set(),
    recordOutcome,
    recordReceipt,
    expectLateReceipts() {
      expectsLateReceipts = true;
    },
    limitErrorText,
    isSuperseded: (position) => outcomes[position] === OUTCOMES.superseded,
    recordRemaining(outcome) {
      for (const position of [...pending]) recordOutcome(position, outcome);
    },
    deliveredPositions: () =>
      [...outcomes.keys()].filter((position) => outcomes[position] === OUTCOMES.delivered),
    toSettlement: () => ({
      id,
      claim,
      outcomes,
      latenciesMs,
      words: collectProviderErrors(),
      lateReceipts: expectsLateReceipts,
    }),
  };
}

/**
 * Creates the fallback batch of an MQTT batch before that is closed: recipients that haven't acknowledged and have an
 * FCM token, due after the app's delay. Their inbox rows stay, and stay responsible for them. The id is the batch's
 * with a suffix, so that a batch delivered twice has one fallback.
 *
 * @param outcomes of the batch's recipients, by position
 */
async function scheduleFallback(
  resources: {
    store: Pick<Store, 'devices' | 'batches' | 'clock'>;
    getAppSettings: GetAppSettings;
  },
  push: SendablePush,
  { id, work }: LeasedBatch,
  tokens: readonly string[],
  outcomes: Uint8Array,
): Promise<void> {
  const { store, getAppSettings } = resources;
  if (work.channel !== 'mqtt' || !outcomes.includes(OUTCOMES.inbox)) return;
  const { fallbackDelayMs } = await getAppSettings(push.app);
  if (fallbackDelayMs === undefined) return;
  const dueAtMs = (push.dueAt ?? push.acceptedAt).getTime() + fallbackDelayMs;
  if (dueAtMs >= push.sendUntil.getTime()) return;
  const unacknowledged = tokens.filter((_, position) => outcomes[position] === OUTCOMES.inbox);
  const reachable = (await store.devices.filterWithFcmToken(push.app, unacknowledged)).sort();
  if (reachable.length === 0) return;
  await store.batches.insertIfAbsent([
    {
      _id: fallbackBatchId(id),
      push: push._id,
      app: push.app,
      from: reachable[0] ?? '',
      to: reachable.at(-1) ?? '',
      work: {
        state: 'ready',
        channel: 'fcm',
        fallback: true,
        at: new Date(Math.max(dueAtMs, store.clock.now())),
        tries: 0,
        n: reachable.length,
        tokens: joinTokens(reachable),
      },
    },
  ]);
}

/**
 * Closes a batch for good, then removes obsolete inbox rows: of recipients whose receipt came meanwhile, and of
 * recipients that this attempt, or a newer push of the collapse key, reached after an earlier attempt had written a
 * row. Removes nothing and returns false when the claim was lost.
 */
async function settleBatch(
  resources: {
    store: Pick<Store, 'batchTable' | 'inbox' | 'pushCompletion'>;
    producers: Pick<Producers, 'checkCompletion'>;
    retentionMs: number;
  },
  { push, batch, span }: Pick<Run, 'push' | 'batch' | 'span'>,
  settlement: Settlement,
): Promise<boolean> {
  const { store, producers, retentionMs } = resources;
  const { outcomes } = settlement;
  const isPushComplete = !isBatchId(batch.id) && !outcomes.includes(OUTCOMES.inbox);
  const settled = await store.batchTable.settle({
    ...settlement,
    ...(span !== undefined && { trace: span.traceparent }),
    ...(isPushComplete &&
      push.state === 'open' && {
        finish: { purgeAt: store.pushCompletion.computePurgeAt(retentionMs) },
      }),
  });
  if (settled === undefined) return false;
  await removeStaleRows(store, push, outcomes, { batch, got: settled.got });
  if (!isPushComplete && mayCompletePush(batch, outcomes, settled.got))
    void producers.checkCompletion([push._id]);
  return true;
}

/** Removes the obsolete rows of a settled batch, and counts those of receipts that came before the settlement. */
async function removeStaleRows(
  { inbox }: Pick<Store, 'inbox'>,
  push: SendablePush,
  outcomes: Uint8Array,
  { batch, got }: { batch: LeasedBatch; got: Record<string, number> },
): Promise<void> {
  const mayHaveRow = batch.work.channel === 'mqtt' && batch.work.tries > 1;
  const collapse = push.collapse === undefined ? {} : { collapse: push.collapse };
  const acknowledgedRows: string[] = [];
  const obsoleteRows: string[] = [];
  for (const [position, token] of splitTokens(batch.work.tokens).entries()) {
    const isInInbox = outcomes[position] === OUTCOMES.inbox;
    const isObsolete = mayHaveRow && OUTCOMES_WITHOUT_ROW.includes(outcomes[position] ?? 0);
    if (isInInbox ? !hasBit(got, position) : !isObsolete) continue;
    const rows = isInInbox ? acknowledgedRows : obsoleteRows;
    rows.push(rowId({ token, push: push._id, ...collapse }));
  }
  const removed = await inbox.remove(push._id, acknowledgedRows);
  countRecipients('mqtt', { delivered: removed });
  processCounts.inboxRowsDrained += removed;
  await inbox.remove(push._id, obsoleteRows);
}

/**
 * Checks whether this settlement may complete the push. A recipient with an inbox row has its push checked when the row goes,
 * unless its receipt came before the batch was closed.
 */
function mayCompletePush(
  { id }: LeasedBatch,
  outcomes: Uint8Array,
  got: Record<string, number>,
): boolean {
  if (isBatchId(id)) return true;
  return outcomes.every((code, position) => code !== OUTCOMES.inbox || hasBit(got, position));
}
