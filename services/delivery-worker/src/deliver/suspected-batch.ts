import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import type { DeferredEntry } from '@carillon/store/documents';
import { SUSPECTED_AFTER } from '@carillon/store/lapsed-claims';

/** Attempts at one recipient alone, each of which ended its process, after which the recipient fails. */
const ATTEMPTS_AT_ONE = 6;
/** Recipients that fail this way before all others do, if none could be processed: the payload is the cause. */
const FAILED_RECIPIENTS = 3;
const WORKER_FAILED = failureCode('worker-failed');

/** Returns how many recipients are processed at once after so many lapsed claims: half as many after each. */
export function sliceSize(recipients: number, lapsed: number): number {
  return Math.max(1, Math.ceil(recipients / 2 ** (lapsed - SUSPECTED_AFTER + 1)));
}

/** Returns the number of lapsed claims from which on recipients are processed one at a time. */
function lapsedAtOne(recipients: number): number {
  let lapsed = SUSPECTED_AFTER;
  while (sliceSize(recipients, lapsed) > 1) lapsed += 1;
  return lapsed;
}

/** Checks whether an outcome shows that a recipient did not end its process. */
function isProcessed(code: number): boolean {
  return code !== OUTCOMES.pending && code !== WORKER_FAILED;
}

/** Slices of a batch that is suspected of ending its workers. */
export type SuspectedBatch = ReturnType<typeof createSuspectedBatch>;

/** The outcomes of a suspected batch. */
interface SuspectedOutcomes {
  /** Positions without an outcome. */
  pending: Set<number>;
  outcomes: Uint8Array;
  recordOutcome(position: number, outcome: number): void;
}

/**
 * Divides the pending recipients of a batch that has ended its workers: they are processed slice by slice, in order of
 * position, those that were deferred last. When a slice ends the process, the next claim begins with half of it; a recipient that ends the process again
 * and again, alone in its slice, fails. A slice that is processed keeps the count, so that at most ten ends of the
 * process lead to one recipient of a thousand.
 *
 * @param lapsed claims that have lapsed, at least {@link SUSPECTED_AFTER}
 */
export function createSuspectedBatch(
  { pending, outcomes, recordOutcome }: SuspectedOutcomes,
  lapsed = SUSPECTED_AFTER,
  deferredEntries: readonly DeferredEntry[] = [],
) {
  const atOne = lapsedAtOne(outcomes.length);
  const deferred = new Map(deferredEntries.map((entry) => [entry[0], entry]));
  let count = lapsed;
  let waiting: number[] | undefined;
  let tried: number[] = [];
  // Nothing has been processed, and the payload may be the cause.
  let isPayloadSuspected = countFailed() > 0 && !outcomes.some(isProcessed);

  function countFailed(): number {
    return outcomes.reduce((sum, code) => sum + (code === WORKER_FAILED ? 1 : 0), 0);
  }

  /** Lists the pending recipients in the order of the slices: a deferred one was tried, and did not end the process. */
  function listPending(): number[] {
    const dueAt = (position: number) => deferred.get(position)?.[1] ?? 0;
    return [...pending].sort((a, b) => dueAt(a) - dueAt(b) || a - b);
  }

  function failFirst(): void {
    const [first] = listPending();
    if (first === undefined) return;
    recordOutcome(first, WORKER_FAILED);
    isPayloadSuspected = !outcomes.some(isProcessed);
    // The next recipient is then tried alone, without halving first.
    count = isPayloadSuspected ? atOne : SUSPECTED_AFTER;
    if (!isPayloadSuspected || countFailed() < FAILED_RECIPIENTS) return;
    for (const position of [...pending]) recordOutcome(position, WORKER_FAILED);
  }

  return {
    /** Lapsed claims to save with the outcomes. */
    lapsed: (): number => count,

    /** Fails the recipient that has ended the process as often as one may. Returns whether there was one. */
    failCause(): boolean {
      if (count < atOne + ATTEMPTS_AT_ONE) return false;
      failFirst();
      return true;
    },

    /** Leaves only the next slice in `pending`. False: all recipients have been tried. */
    beginSlice(): boolean {
      if (waiting === undefined) waiting = listPending();
      else tried.push(...pending);
      pending.clear();
      for (const position of waiting.splice(0, sliceSize(outcomes.length, count)))
        pending.add(position);
      return pending.size > 0;
    },

    /** Records that the slice has not ended the process. */
    endSlice(): void {
      count = isPayloadSuspected ? SUSPECTED_AFTER : Math.min(count, atOne);
      isPayloadSuspected = false;
    },

    /** Puts all recipients without an outcome back into `pending`. */
    endSlices(): void {
      const rest = [...tried, ...pending, ...(waiting ?? [])].sort((a, b) => a - b);
      tried = [];
      waiting = undefined;
      pending.clear();
      for (const position of rest) pending.add(position);
    },

    /** Adds the deferrals of the other slices to those of the current one; without new ones all stay as they are. */
    mergeDeferred(current: readonly DeferredEntry[] | undefined): DeferredEntry[] {
      if (current !== undefined) for (const position of pending) deferred.delete(position);
      for (const entry of current ?? []) deferred.set(entry[0], entry);
      return [...deferred.values()].filter(([position]) => outcomes[position] === OUTCOMES.pending);
    },
  };
}
