import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import type { Batch, DeferredEntry, TriedRecipient } from '@carillon/store/documents';

/**
 * Maximum attempts at one recipient, each of which ended or blocked its worker; then the recipient fails. More than the
 * claims of another batch that lapse before it is suspected: until then it may end the worker that tries the recipient.
 */
export const MAX_ATTEMPTS = 6;
/**
 * Number of recipients that fail this way before all others do, if none could be processed: the payload is the cause.
 */
const FAILED_RECIPIENTS = 3;
const WORKER_FAILED = failureCode('worker-failed');

/** A batch that is suspected of ending its workers. */
export type SuspectedBatch = ReturnType<typeof createSuspectedBatch>;

/** The outcomes of a suspected batch. */
interface SuspectedOutcomes {
  /** Positions without an outcome. */
  pending: Set<number>;
  outcomes: Uint8Array;
  recordOutcome(position: number, outcome: number): void;
  recordRemaining(outcome: number): void;
}

/**
 * Selects the recipients of a suspected batch one after the other. The one that is tried is saved before with the number of
 * its attempts, and again afterwards: a saved attempt without an end has ended or blocked its worker. After
 * {@link MAX_ATTEMPTS} such attempts in a row the recipient fails.
 */
export function createSuspectedBatch(
  { pending, outcomes, recordOutcome, recordRemaining }: SuspectedOutcomes,
  { trying: savedTry, later = [] }: Pick<Batch, 'trying' | 'later'>,
) {
  const deferred = new Map(later.map((entry) => [entry[0], entry]));
  let trying: TriedRecipient = savedTry ?? { position: 0, attempts: 0 };
  let pendingBefore: number[] = [];

  const isRepeated = () => trying.attempts > 0 && pending.has(trying.position);
  /** A recipient with another outcome has not ended its worker: neither has the payload. */
  const isProcessed = (code: number) => code !== OUTCOMES.pending && code !== WORKER_FAILED;

  return {
    /** Returns the recipient to save with the outcomes. */
    trying: (): TriedRecipient => trying,

    /** Checks whether a recipient is tried again that may have ended or blocked its worker. */
    isRepeated,

    /** Fails the recipient that has ended or blocked as many workers as one may. Returns true if there was one. */
    failCause(): boolean {
      if (!isRepeated() || trying.attempts < MAX_ATTEMPTS) return false;
      recordOutcome(trying.position, WORKER_FAILED);
      const failed = outcomes.filter((code) => code === WORKER_FAILED).length;
      if (failed >= FAILED_RECIPIENTS && !outcomes.some(isProcessed))
        recordRemaining(WORKER_FAILED);
      return true;
    },

    /**
     * Lists the pending recipients that are due: the one that is repeated, so that its attempts are in a row, then those that
     * follow the one that was tried last.
     *
     * @param nowMs milliseconds, MongoDB's time
     */
    listDue(nowMs: number): number[] {
      const due = [...pending].filter((position) => (deferred.get(position)?.[1] ?? 0) <= nowMs);
      const isAfter = (position: number) => position > trying.position;
      const inTurn = [...due.filter(isAfter), ...due.filter((position) => !isAfter(position))];
      return isRepeated() ? [...new Set([trying.position, ...inTurn])] : inTurn;
    },

    /** Returns the milliseconds until the first deferred recipient is due. */
    untilDueMs: (nowMs: number): number =>
      Math.min(
        ...[...deferred.values()]
          .filter(([position]) => pending.has(position))
          .map(([, untilMs]) => Math.max(0, untilMs - nowMs)),
      ),

    /** Leaves only one recipient in `pending`, and counts an attempt at it. */
    beginTry(position: number): void {
      const attempts = position === trying.position ? trying.attempts : 0;
      trying = { position, attempts: attempts + 1 };
      pendingBefore = [...pending];
      pending.clear();
      pending.add(position);
    },

    /**
     * Puts all recipients without an outcome back into `pending`.
     *
     * @param hasBlocked the attempt has blocked its worker until the lease had ended
     */
    endTry(hasBlocked: boolean): void {
      if (!hasBlocked) trying = { ...trying, attempts: 0 };
      pending.clear();
      // In the order of position.
      for (const position of pendingBefore)
        if (outcomes[position] === OUTCOMES.pending) pending.add(position);
    },

    /** Adds the deferrals of the other recipients to those of the current one; without new ones all stay as they are. */
    mergeDeferred(current: readonly DeferredEntry[] | undefined): DeferredEntry[] {
      if (current !== undefined) for (const position of pending) deferred.delete(position);
      for (const entry of current ?? []) deferred.set(entry[0], entry);
      return [...deferred.values()].filter(([position]) => outcomes[position] === OUTCOMES.pending);
    },
  };
}
