import { computeFullJitterMs } from '@carillon/core/backoff';

export const BASE_BACKOFF_MS = 1_000;
export const MAX_BACKOFF_MS = 600_000;
const BACKOFF = { baseMs: BASE_BACKOFF_MS, maxMs: MAX_BACKOFF_MS };
/** Longest Retry-After that is honoured: the provider is tried once a day. */
export const MAX_RETRY_AFTER_MS = 86_400_000;
/** Share of a Retry-After by which attempts are spread, so that they don't all come at once. */
export const JITTER = 0.1;

/** Failures in a row, without a success between them, that open the circuit. */
export const FAILURES_TO_OPEN = 5;
/** Longest open period without a Retry-After: a recovered provider is used again within a minute. */
export const MAX_OPEN_MS = 60_000;
export const AUTH_ERROR_OPEN_MS = 60_000;
const INITIAL_DOUBLINGS = 1;
const MIN_OPEN_MS = 500;
/** Delay of other requests while a probe is in flight. */
const PROBE_WAIT_MS = 500;

/**
 * Computes the delay of the next attempt, for all providers (guarantee G16): Retry-After and a little more, else full
 * jitter below a ceiling that doubles from a second to ten minutes. The caller checks whether the push may still be sent.
 *
 * @param retries deferrals so far
 * @param retryAfterMs the provider's Retry-After
 * @param random from 0 to 1
 */
export function computeRetryDelayMs(
  retries: number,
  retryAfterMs: number | undefined,
  random: () => number,
): number {
  if (retryAfterMs !== undefined) {
    return Math.round(Math.min(retryAfterMs, MAX_RETRY_AFTER_MS) * (1 + random() * JITTER));
  }
  return computeFullJitterMs(retries, BACKOFF, random);
}

/** Permission to send one request; the result is reported with it. */
export interface Permit {
  readonly generation: number;
}

/** Closed: all is sent. Open: nothing is. Half-open: one probe. */
export type CircuitState = 'closed' | 'open' | 'half-open';

/** Circuit breaker of an upstream. */
export type Circuit = ReturnType<typeof createCircuit>;

/**
 * Creates a closed circuit. After an open period it is half-open: one request probes and the others wait. Responses to
 * requests from before the opening arrive late and contain no news, so a permit belongs to a generation, and each
 * opening begins the next one.
 *
 * @param now monotonic clock, milliseconds
 * @param random from 0 to 1
 */
export function createCircuit(now: () => number, random: () => number) {
  let generation = 0;
  let failures = 0;
  let doublings = INITIAL_DOUBLINGS;
  let openUntil = 0;
  let isOpen = false;
  let isHalfOpen = false;

  function open(openForMs: number): void {
    generation += 1;
    isOpen = true;
    isHalfOpen = false;
    failures = 0;
    openUntil = Math.max(openUntil, now() + openForMs);
  }

  /** Returns the milliseconds until the next call of `acquire` can succeed, 0 if it can now. */
  function waitMs(): number {
    if (!isOpen) return 0;
    const openForMs = openUntil - now();
    if (openForMs > 0) return openForMs;
    return isHalfOpen ? PROBE_WAIT_MS : 0;
  }

  return {
    waitMs,
    /** Returns a permit, or the milliseconds until the next call can succeed. */
    acquire(): Permit | number {
      const ms = waitMs();
      if (ms > 0) return ms;
      isHalfOpen = isOpen;
      return { generation };
    },
    /** Reports a response, whatever its meaning for the recipient. */
    onSuccess(permit: Permit): void {
      if (permit.generation !== generation) return;
      isOpen = false;
      isHalfOpen = false;
      failures = 0;
      doublings = INITIAL_DOUBLINGS;
    },
    /** Reports that the upstream failed or requested a pause. */
    onFailure(permit: Permit, retryAfterMs?: number): void {
      if (permit.generation !== generation) return;
      failures += 1;
      if (!isOpen && retryAfterMs === undefined && failures < FAILURES_TO_OPEN) return;
      const openForMs = computeRetryDelayMs(doublings, retryAfterMs, random);
      doublings += 1;
      open(
        retryAfterMs === undefined
          ? Math.max(MIN_OPEN_MS, Math.min(openForMs, MAX_OPEN_MS))
          : openForMs,
      );
    },
    /** Reports a refused credential. Returns how long the circuit opens, undefined if it is open already. */
    onAuthError(permit: Permit): number | undefined {
      if (permit.generation !== generation) return undefined;
      open(AUTH_ERROR_OPEN_MS);
      return AUTH_ERROR_OPEN_MS;
    },
    /** Returns the permit of a request that was never sent. */
    release(permit: Permit): void {
      if (permit.generation === generation) isHalfOpen = false;
    },
    /** Checks whether nothing but a probe is sent. */
    isOpen: (): boolean => isOpen,
    /** Returns the state; an open circuit whose time is over is half-open, also before its probe. */
    state(): CircuitState {
      if (!isOpen) return 'closed';
      return isHalfOpen || openUntil <= now() ? 'half-open' : 'open';
    },
  };
}
