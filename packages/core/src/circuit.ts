import { computeRetryDelayMs } from './retry-policy.ts';
import {
  createTroubledRecipients,
  type Permit,
  REFUSED_ROUND_MS,
  type Trouble,
} from './troubled-recipients.ts';

/**
 * Minimum different recipients whose answers count for the upstream. Answers of fewer count for these recipients only.
 */
export const SEVERAL = 3;
/** Maximum open period without a Retry-After: a recovered provider is used again within a minute. */
export const MAX_OPEN_MS = 60_000;
/** Refusals of a recipient, after its first, with which it fails if others were accepted before each of them. */
export const REFUSED_ROUNDS = 3;
/** Doublings of the backoff for the first open period. */
const INITIAL_DOUBLINGS = 1;
/** Minimum open period, in milliseconds. */
const MIN_OPEN_MS = 500;
/** Delay of other requests while a probe, or a request that may close the circuit, is in flight. */
const PROBE_WAIT_MS = 500;
/** Delay of a recipient that leaves the probe to others, as a part of the open period. */
const LEAVING_PART = 1 / 8;
/**
 * Additional rest of a recipient whose probe has failed, as a part of the open period: another recipient gets a turn.
 */
const PROBED_PART = 1 / 2;

/** Closed: all is sent. Open: nothing is. Half-open: one probe. */
export type CircuitState = 'closed' | 'open' | 'half-open';

/** Meaning of a refusal. */
export interface Refusal {
  /** Several recipients were refused, or all that were tried: the credential is the likely cause. */
  concernsCredential: boolean;
  /** The recipient has been refused in several rounds while others were accepted: it fails. */
  isFinal: boolean;
}

/** Circuit breaker of an upstream. */
export type Circuit = ReturnType<typeof createCircuit>;

/**
 * Creates a closed circuit. An answer counts for the recipient that got it. The circuit opens when several recipients
 * got such an answer and the provider accepted no request that was sent after theirs. One recipient stops no other, in
 * any number of pushes.
 *
 * @param now monotonic clock, milliseconds
 * @param random from 0 to 1
 */
export function createCircuit(now: () => number, random: () => number) {
  const troubled = createTroubledRecipients(now);
  const gate = createGate(now);
  let sent = 0;
  let settled = 0;
  let doublings = INITIAL_DOUBLINGS;

  function waitMs(recipient: string): number {
    const trouble = troubled.find(recipient);
    const restMs = trouble === undefined ? 0 : troubled.restMs(trouble);
    return Math.max(restMs, gate.waitMs(trouble !== undefined, sent - settled));
  }

  function settle({ recipient, serial }: Permit): void {
    settled += 1;
    const trouble = troubled.find(recipient);
    if (trouble?.inFlight === serial) trouble.inFlight = undefined;
  }

  const hasEvidence = (): boolean => troubled.listEvidence().length >= SEVERAL;

  /** Opens the circuit if there is evidence enough, and again after a failed probe. Returns whether it did. */
  function openIfDue({ serial }: Permit, trouble: Trouble, computeOpenMs: () => number): boolean {
    const isProbe = gate.isOpen() && gate.isProbe(serial);
    if (gate.isOpen() ? !isProbe : trouble.isOwn || !hasEvidence()) return false;
    const openMs = computeOpenMs();
    gate.open(openMs);
    if (isProbe)
      trouble.restsUntil = Math.max(trouble.restsUntil, now() + openMs * (1 + PROBED_PART));
    return true;
  }

  return {
    /** Returns the milliseconds until a request to this recipient may be sent, 0 if it may now. */
    waitMs,
    /** Returns a permit, or the milliseconds until the next call for this recipient can succeed. */
    acquire(recipient: string): Permit | number {
      const ms = waitMs(recipient);
      if (ms > 0) return ms;
      sent += 1;
      gate.onSent(sent);
      const trouble = troubled.find(recipient);
      if (trouble !== undefined) trouble.inFlight = sent;
      return { recipient, serial: sent };
    },
    /**
     * Reports that the provider has accepted the push, or has refused it for a reason of the push or the device, which
     * shows that its server works.
     */
    onAnswered(permit: Permit, isAccepted: boolean): void {
      settle(permit);
      gate.endProbe(permit.serial);
      troubled.onAnswered(permit, isAccepted);
      // Of requests that were sent before the evidence some may still be accepted.
      if (gate.isOpen() && hasEvidence()) return;
      gate.close();
      doublings = INITIAL_DOUBLINGS;
    },
    /** Reports that the provider failed, or requested a pause, for this recipient. */
    onFailure(permit: Permit, retryAfterMs = 0): void {
      settle(permit);
      const trouble = troubled.add(permit, sent, { isRefusal: false, retryAfterMs });
      openIfDue(permit, trouble, () => {
        doublings += 1;
        return computeOpenMs(doublings - 1, troubled.listEvidence(), random);
      });
    },
    /** Reports that the provider refused the credential for this recipient, which then rests for a round. */
    onRefusal(permit: Permit): Refusal {
      settle(permit);
      const trouble = troubled.add(permit, sent, { isRefusal: true });
      const hasOpened = openIfDue(permit, trouble, () => REFUSED_ROUND_MS) && hasEvidence();
      const isFinal = trouble.isOwn && trouble.rounds >= REFUSED_ROUNDS && !gate.isOpen();
      // A recipient that has failed does not rest: its next push needs no rounds to fail too.
      if (isFinal) trouble.restsUntil = 0;
      const areAllRefused = !trouble.isOwn && (!troubled.hasAccepted() || trouble.isRepeated);
      return { concernsCredential: hasOpened || areAllRefused, isFinal };
    },
    /** Reports a request that has told nothing about the upstream: it was never sent, say. */
    release(permit: Permit): void {
      settle(permit);
      gate.endProbe(permit.serial);
    },
    /** Checks whether nothing but a probe is sent, and since when by `now`. */
    ...{ isOpen: gate.isOpen, openedAt: gate.openedAt },
    state: gate.state,
    countRefused: troubled.countRefused,
    hasRefused: troubled.hasRefused,
  };
}

/** Computes how long failures open a circuit. A Retry-After counts if several recipients got one: the shortest. */
function computeOpenMs(
  doublings: number,
  evidence: readonly Trouble[],
  random: () => number,
): number {
  const backoffMs = computeRetryDelayMs(doublings, undefined, random);
  const openMs = Math.max(MIN_OPEN_MS, Math.min(backoffMs, MAX_OPEN_MS));
  if (evidence.length < SEVERAL) return openMs;
  const retryAfterMs = Math.min(...evidence.map((trouble) => trouble.retryAfterMs));
  return Math.max(openMs, computeRetryDelayMs(0, retryAfterMs, random));
}

/**
 * Creates the state of a circuit: closed, or open until a moment from which one request at a time probes. Recipients
 * with trouble leave the probe to those without, if any wait, for one more open period: it would tell nothing new.
 */
function createGate(now: () => number) {
  /** Undefined while the circuit is closed. */
  let openedAt: number | undefined;
  let openMs = 0;
  let openUntil = 0;
  /** Number of the request that probes. */
  let probe: number | undefined;
  /** A recipient without trouble was turned away in this open period. */
  let othersWait = false;

  const isOpen = (): boolean => openedAt !== undefined;
  return {
    isOpen,
    openedAt: (): number | undefined => openedAt,
    isProbe: (serial: number): boolean => serial === probe,
    /** Returns the state; an open circuit whose time is over is half-open, also before its probe. */
    state(): CircuitState {
      if (!isOpen()) return 'closed';
      return probe !== undefined || openUntil <= now() ? 'half-open' : 'open';
    },
    /** Returns the milliseconds until a request may be sent to a recipient, at most 0 if it may now. */
    waitMs(isTroubled: boolean, inFlight: number): number {
      if (!isOpen()) return 0;
      othersWait ||= !isTroubled;
      const leftMs = openUntil - now();
      // A request that was sent before the circuit opened may still be accepted, and close it.
      const isUndecided = inFlight > (probe === undefined ? 0 : 1);
      if (leftMs > 0) return isUndecided ? Math.min(leftMs, PROBE_WAIT_MS) : leftMs;
      if (probe !== undefined) return PROBE_WAIT_MS;
      const leavesProbe = isTroubled && othersWait && leftMs > -openMs;
      // Not for all of its time: the probe may succeed at once.
      return leavesProbe ? Math.max(PROBE_WAIT_MS, openMs * LEAVING_PART) : 0;
    },
    onSent(serial: number): void {
      if (isOpen()) probe = serial;
    },
    open(ms: number): void {
      openedAt ??= now();
      openMs = ms;
      openUntil = now() + ms;
      probe = undefined;
      othersWait = false;
    },
    close(): void {
      openedAt = undefined;
      probe = undefined;
    },
    endProbe(serial: number): void {
      if (serial === probe) probe = undefined;
    },
  };
}
