import { hasBit, splitTokens } from '@carillon/core/batch';
import {
  describeOutcome,
  isOpenOutcome,
  OUTCOMES,
  type OutcomeName,
} from '@carillon/core/outcomes';
import { toBytes } from './bytes.ts';
import type { Batch, RecipientProviderError, RecipientStatus } from './documents.ts';
import { latencyMsAt } from './receipt-times.ts';

/** The fields of a batch with the outcomes of its recipients. */
export type OutcomeFields = Pick<
  Batch,
  'n' | 'outcomes' | 'final' | 'lateReceipts' | 'got' | 'gone' | 'sent' | 'refused' | 'ended'
>;

/** The {@link OutcomeFields} of a document that holds a batch, as a projection. */
export const OUTCOME_PROJECTION = {
  'work.n': 1,
  'work.outcomes': 1,
  'work.final': 1,
  'work.lateReceipts': 1,
  'work.got': 1,
  'work.gone': 1,
  'work.sent': 1,
  'work.refused': 1,
  'work.ended': 1,
} as const;

/** Outcomes of recipients that a provider may have deferred before. */
const UNDELIVERED: readonly OutcomeName[] = ['pending', 'expired', 'deleted'];

/**
 * Returns the outcome of one recipient as the batch knows it: `inbox` while it depends on the inbox row. The first
 * outcome that was written stays: a receipt changes only a recipient without one, unless the batch accepts late
 * receipts.
 */
function outcomeCodeAt(batch: OutcomeFields, position: number): number {
  const code = toBytes(batch.outcomes)[position] || OUTCOMES.pending;
  if (batch.final === true) return code;
  const isOpen = isOpenOutcome(code);
  const acceptsReceipt = isOpen || batch.lateReceipts === true;
  if (acceptsReceipt && hasBit(batch.got ?? {}, position)) return OUTCOMES.delivered;
  if (!isOpen) return code;
  if (hasBit(batch.gone ?? {}, position)) return OUTCOMES.gone;
  if (hasBit(batch.sent ?? {}, position)) return OUTCOMES.sent;
  const refused = batch.refused?.[position];
  if (code === OUTCOMES.offered && refused !== undefined) return refused;
  // Closed by the end of the push: a recipient without an outcome ends as the push did.
  return code || (batch.ended ?? OUTCOMES.pending);
}

/** Returns the outcomes of all recipients of a batch, one byte each. */
export function outcomeCodes(batch: OutcomeFields): Uint8Array {
  const { n, outcomes, got, gone, sent, refused, ended } = batch;
  if ([got, gone, sent, refused, ended].every((field) => field === undefined)) {
    // Nothing outside the bytes decides, which is so for most batches.
    const codes = new Uint8Array(n);
    codes.set(toBytes(outcomes).subarray(0, n));
    return codes;
  }
  return Uint8Array.from({ length: batch.n }, (_, position) => outcomeCodeAt(batch, position));
}

/**
 * Returns the status of one recipient as the batch knows it; undefined if it is not in the batch.
 *
 * @param id of the batch or its push
 */
export function statusIn(batch: Batch, token: string, id: string): RecipientStatus | undefined {
  const position = splitTokens(batch.tokens).indexOf(token);
  return position < 0 ? undefined : statusAt(batch, position, id);
}

/**
 * Returns the status of the recipient at a position as the batch knows it.
 *
 * @param id of the batch or its push
 */
export function statusAt(
  batch: Omit<Batch, 'tokens'>,
  position: number,
  id: string,
): RecipientStatus {
  const code = outcomeCodeAt(batch, position);
  const milliseconds = latencyMsAt(batch, position, code, id);
  const outcomeFields = describeOutcome(code);
  const errorFields = describeProviderError(batch, position, outcomeFields.outcome);
  return { ...outcomeFields, ...(milliseconds > 0 && { milliseconds }), ...errorFields };
}

/** Lists the recipients of a batch that a provider has deferred or rejected. */
export function recipientsWithErrors(batch: Batch): RecipientProviderError[] {
  const tokens = splitTokens(batch.tokens);
  return positionsWithErrors(batch).flatMap((position) => {
    const outcomeFields = describeOutcome(outcomeCodeAt(batch, position));
    const errorFields = describeProviderError(batch, position, outcomeFields.outcome);
    if (errorFields.detail === undefined) return [];
    return [{ token: tokens[position] ?? '', ...outcomeFields, ...errorFields }];
  });
}

type ProviderErrorDetails = Pick<RecipientStatus, 'detail' | 'tries' | 'nextTryAt'>;

/** Returns a provider's last error about a recipient, and when the next try is if there is one. */
function describeProviderError(
  batch: Omit<Batch, 'tokens'>,
  position: number,
  outcome: OutcomeName,
): ProviderErrorDetails {
  const [detail] = batch.words?.find(([, positions]) => positions.includes(position)) ?? [];
  if (detail !== undefined) return { detail };
  if (!UNDELIVERED.includes(outcome)) return {};
  const [, untilMs = 0, tries, lastError] = batch.later?.find(([at]) => at === position) ?? [];
  const nextMs = outcome === 'pending' ? computeNextTryMs(batch, untilMs) : 0;
  return {
    ...(lastError !== undefined && { detail: lastError }),
    ...(tries !== undefined && { tries }),
    ...(nextMs > 0 && { nextTryAt: new Date(nextMs).toISOString() }),
  };
}

/** Lists the positions for which a provider returned an error. */
function positionsWithErrors({ later: deferred = [], words = [] }: Batch): number[] {
  const all = [...deferred.map(([position]) => position), ...words.flatMap(([, some]) => some)];
  return [...new Set(all)].sort((a, b) => a - b);
}

/**
 * Returns the time of a recipient's next try, 0 for any moment. A batch that waits for a retry is not claimed earlier.
 */
function computeNextTryMs(
  { state, claim, tries, at }: Omit<Batch, 'tokens'>,
  untilMs: number,
): number {
  if (state === 'closed') return 0;
  const isWaiting = claim === undefined && tries > 0;
  return isWaiting ? Math.max(untilMs, at.getTime()) : untilMs;
}
