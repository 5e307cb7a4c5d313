import { ERASED_TOKEN, hasBit, splitTokens } from '@carillon/core/batch';
import { OUTCOMES } from '@carillon/core/outcomes';
import type { Settlement } from '@carillon/store/batch-table';
import { readUint32s, toBytes } from '@carillon/store/bytes';
import type { Clock } from '@carillon/store/clock';
import type { Batch, ProviderErrorEntry } from '@carillon/store/documents';
import type { SendablePush } from '@carillon/store/sendable-push';
import type { Delivery, LeasedBatch } from './channel.ts';
import { createErrorTexts } from './error-texts.ts';

/** Outcomes and latencies of a batch in progress. */
export interface BatchOutcomes
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
  /** One byte for each recipient (core/outcomes). */
  outcomes: Uint8Array;
  recordRemaining(outcome: number): void;
  limitErrorText(text: string): string;
  toSettlement(): Settlement;
}

/** Creates the outcomes of a batch; outcomes and receipts that are saved already are kept. */
export function createBatchOutcomes(
  clock: Pick<Clock, 'now'>,
  push: SendablePush,
  { id, claim, work }: Pick<LeasedBatch, 'id' | 'claim' | 'work'>,
): BatchOutcomes {
  const tokens = splitTokens(work.tokens);
  const outcomes = new Uint8Array(tokens.length);
  const latenciesMs = readUint32s(work.ms, tokens.length);
  const pending = new Set<number>();
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
    if (outcome === OUTCOMES.delivered) setLatency(position, 0);
    if (providerError === undefined) return;
    const text = limitErrorText(providerError);
    const positions = errorPositions.get(text);
    if (positions === undefined) errorPositions.set(text, [position]);
    else positions.push(position);
  }

  function setLatency(position: number, ageMs: number): void {
    latenciesMs[position] = Math.max(1, clock.now() - ageMs - startedAt);
  }

  function recordReceipt(position: number, ageMs = 0): void {
    if (outcomes[position] === OUTCOMES.delivered) return;
    setOutcome(position, OUTCOMES.delivered);
    setLatency(position, ageMs);
  }

  /** Leaves out errors about recipients whose receipt came afterwards. */
  function collectProviderErrors(): ProviderErrorEntry[] {
    return [...errorPositions].flatMap(([providerError, positions]): ProviderErrorEntry[] => {
      const undelivered = positions.filter((position) => outcomes[position] !== OUTCOMES.delivered);
      return undelivered.length === 0 ? [] : [[providerError, undelivered]];
    });
  }

  readSavedOutcomes(work, tokens, (position, outcome) => {
    if (outcome === OUTCOMES.pending) pending.add(position);
    else outcomes[position] = outcome;
  });
  return {
    tokens,
    pending,
    outcomes,
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
    toSettlement: () => ({
      id,
      claim,
      // Copies: further outcomes may come while the write is in flight.
      outcomes: outcomes.slice(),
      latenciesMs: latenciesMs.slice(),
      words: collectProviderErrors(),
      lateReceipts: expectsLateReceipts,
    }),
  };
}

/** Reads the outcomes, receipts and answers that are saved already; a recipient that was erased meanwhile is gone. */
function readSavedOutcomes(
  { got = {}, sent = {}, refused = {}, outcomes }: Omit<Batch, 'tokens'>,
  tokens: readonly string[],
  take: (position: number, outcome: number) => void,
): void {
  const saved = toBytes(outcomes);
  for (let position = 0; position < tokens.length; position += 1) {
    const outcome = saved[position] || OUTCOMES.pending;
    const isErased = outcome === OUTCOMES.pending && tokens[position] === ERASED_TOKEN;
    if (hasBit(got, position)) take(position, OUTCOMES.delivered);
    else if (isErased) take(position, OUTCOMES.gone);
    else if (outcome !== OUTCOMES.pending) take(position, outcome);
    // An earlier attempt has left them to the fallback, which has answered.
    else if (hasBit(sent, position)) take(position, OUTCOMES.inbox);
    else take(position, position in refused ? OUTCOMES.offered : OUTCOMES.pending);
  }
}
