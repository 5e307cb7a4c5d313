import { ApiError } from '@carillon/core/api-error';
import { PROCESS_CLOCK } from '@carillon/runtime/clock';
import { createDeadlines, type TickingClock } from './deadlines.ts';
import { createWaitingRequests } from './waiting-requests.ts';

/** Duration after which a request is slow: with the rest of its way it may miss its response timeout. */
const SLOW_AFTER_MS = 1_000;
/**
 * Number of slow requests from which on the limit is halved. So many mean that more arrive than MongoDB serves; fewer
 * may just be large ones.
 */
const MAX_SLOW_REQUESTS = 16;
/** Minimum interval between two halvings of the limit. */
const LOWER_EVERY_MS = 1_000;
/** Minimum limit of requests in progress: they keep MongoDB's groups and connections busy. */
const MIN_LIMIT = 32;
/** Maximum limit of requests in progress; a higher one limits nothing. */
const MAX_LIMIT = 4_096;
/** Increase of the limit for each request that was not slow. */
const LIMIT_STEP = 0.1;
/** Maximum wait of a request: with the second after which a request is slow, it stays within the response timeout. */
const MAX_WAIT_MS = 1_500;
/** Maximum waiting requests of an account. */
const MAX_WAITING_PER_ACCOUNT = 256;
/** Requests in progress that an account may always have. */
const MIN_SHARE = 4;
/** Maximum length of the body of a request that waits: larger ones would hold much memory. */
const MAX_WAITING_BODY_CHARS = 64 * 1_024;
/** Retry-After of a request that is not admitted. */
const RETRY_AFTER_SECONDS = 2;

interface AdmittedRequest {
  isSlow: boolean;
}

/**
 * Creates the admission control of a process: an adaptive limit of the requests in progress.
 *
 * Requests wait for MongoDB in the order of their arrival. Without a limit an overload would not end: requests time
 * out, clients repeat them, and MongoDB works for clients that have given up. Therefore the limit is halved while many
 * requests are slow, and grows with those that are not; there is none before the first overload. A request whose client
 * has given up counts until its work has ended.
 *
 * A request above the limit waits for one that ends, so that a short shortage, as at the start of a process, refuses
 * none. An account with few requests in progress is always admitted: the requests of others do not displace it.
 *
 * @param onSlowRequest is called when a request has become slow
 */
export function createAdmission(
  onSlowRequest: () => void = () => undefined,
  clock: TickingClock = PROCESS_CLOCK,
) {
  const startDeadline = createDeadlines<AdmittedRequest>((request) => {
    request.isSlow = true;
    slow += 1;
    lowerLimit();
    onSlowRequest();
  }, clock);
  const waiting = createWaitingRequests<{ owner: string }>(clock);
  const countByAccount = new Map<string, number>();
  let inProgress = 0;
  let slow = 0;
  let limit = Number.POSITIVE_INFINITY;
  let loweredAt = Number.NEGATIVE_INFINITY;

  function lowerLimit(): void {
    const now = clock.now();
    if (slow < MAX_SLOW_REQUESTS || now - loweredAt < LOWER_EVERY_MS) return;
    loweredAt = now;
    limit = Math.max(MIN_LIMIT, Math.min(limit, inProgress) / 2);
  }

  function raiseLimit(): void {
    limit += LIMIT_STEP;
    if (limit > MAX_LIMIT) limit = Number.POSITIVE_INFINITY;
  }

  /** Checks whether the process has too many requests in progress, and this account its share of them. */
  function isOverLimit(count: number): boolean {
    if (slow >= MAX_SLOW_REQUESTS) lowerLimit();
    return inProgress >= limit && count >= Math.max(MIN_SHARE, limit / countByAccount.size);
  }

  /** Counts a request as in progress. Returns false, and counts nothing, if it is over the limit. */
  function take({ owner: account }: { owner: string }): boolean {
    const count = countByAccount.get(account) ?? 0;
    if (isOverLimit(count)) return false;
    countByAccount.set(account, count + 1);
    inProgress += 1;
    return true;
  }

  /**
   * Waits for a turn. If too many of the account wait, the oldest gets none: the newest has the most time left, so after
   * an outage it gets its turn.
   */
  function waitForTurn(account: string): Promise<boolean> {
    const [oldest, ...newer] = waiting.listOf(account);
    if (oldest !== undefined && newer.length + 1 >= MAX_WAITING_PER_ACCOUNT) waiting.refuse(oldest);
    return waiting.wait({ owner: account }, MAX_WAIT_MS);
  }

  function release(account: string): void {
    inProgress -= 1;
    const remaining = (countByAccount.get(account) ?? 0) - 1;
    if (remaining > 0) countByAccount.set(account, remaining);
    else countByAccount.delete(account);
    waiting.giveTurns(take);
  }

  /**
   * Runs the work of a request.
   *
   * @param bodyChars length of its body
   * @throws ApiError SERVICE_UNAVAILABLE if the request is over the limit and no turn comes; what `work` throws
   */
  return async function admit<T>(
    account: string,
    bodyChars: number,
    work: () => Promise<T>,
  ): Promise<T> {
    const canWait = bodyChars <= MAX_WAITING_BODY_CHARS;
    if (!take({ owner: account }) && !(canWait && (await waitForTurn(account)))) {
      throw new ApiError('SERVICE_UNAVAILABLE', undefined, RETRY_AFTER_SECONDS);
    }
    const request = { isSlow: false };
    const deadline = startDeadline(SLOW_AFTER_MS, request);
    try {
      return await work();
    } finally {
      deadline.end();
      if (request.isSlow) slow -= 1;
      else raiseLimit();
      release(account);
    }
  };
}
