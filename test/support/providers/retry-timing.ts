import type { Received } from './sandbox.ts';

/** A try that came sooner than the previous response had requested. */
export interface EarlyRetry {
  to: string;
  afterMs: number;
}

/** So many are enough to see the fault. */
const MAX_REPORTED = 5;

/**
 * The first tries that came too soon after a response with that status.
 *
 * @param received sorted by time
 * @param waitMs the wait that the responses to an address requested
 */
export function findEarlyRetries(
  received: readonly Received[],
  status: number,
  waitMs: (to: string) => number,
): EarlyRetry[] {
  const rejectedAt = new Map<string, number>();
  const earlyRetries: EarlyRetry[] = [];
  for (const { to, at, status: responseStatus } of received) {
    const before = rejectedAt.get(to);
    if (before !== undefined && at - before < waitMs(to))
      earlyRetries.push({ to, afterMs: at - before });
    if (responseStatus === status) rejectedAt.set(to, at);
    else rejectedAt.delete(to);
  }
  return earlyRetries.slice(0, MAX_REPORTED);
}

/** A try that came later than it should. */
export interface LateRetry extends EarlyRetry {
  /** The how manieth try of the address was before it. */
  times: number;
}

/**
 * The first tries that came too late.
 *
 * @param received sorted by time
 * @param maxDelayMs by the number of earlier requests to the address
 */
export function findLateRetries(
  received: readonly Received[],
  maxDelayMs: (times: number) => number,
): LateRetry[] {
  const attempts = new Map<string, { times: number; at: number }>();
  const lateRetries: LateRetry[] = [];
  for (const { to, at } of received) {
    const { times = 0, at: before = at } = attempts.get(to) ?? {};
    if (times > 0 && at - before > maxDelayMs(times))
      lateRetries.push({ to, afterMs: at - before, times });
    attempts.set(to, { times: times + 1, at });
  }
  return lateRetries.slice(0, MAX_REPORTED);
}

/** How many requests each address got. */
export function countAttempts(received: readonly Pick<Received, 'to'>[]): number[] {
  const times = new Map<string, number>();
  for (const { to } of received) times.set(to, (times.get(to) ?? 0) + 1);
  return [...times.values()];
}
