import { type BatchedOperation, batchedCountsOf } from './process-counts.ts';

/** Handles one batch. Returns a result or an Error for each item, in order. */
export type BatchHandler<T, R> = (items: T[]) => Promise<readonly (R | Error)[]>;

interface PendingCall<T, R> {
  item: T;
  resolve: (result: R) => void;
  reject: (error: unknown) => void;
}

/** A batch that takes longer is slow. */
const SLOW_AFTER_MS = 200;
/** After a pause the next probe comes after this part of the usual time: the calls of a new load soon share their batches. */
const FIRST_PROBE = 0.1;
/** If a probe found so many calls, `gatherManyMs` applies. */
const MANY_CALLS = 4;

/** Limits of the batches that calls are collected into. */
interface BatcherLimits<T> {
  /** Most items of a batch. */
  maxBatchSize?: number;
  /** Most batches in flight at once. */
  maxInFlight?: number;
  /**
   * Most slow batches in flight that don't count against `maxInFlight`; by default 0. Each holds a connection of the pool. For
   * writes that wait for a majority, which may be distant: a call that also waits for the batch before it would take twice as
   * long. At most one more batch starts every 200 ms, which is little load.
   */
  maxSlow?: number;
  /**
   * Least time between the starts of two batches. The first call after a pause of this length starts at once; at higher rates
   * calls wait, so that more of them share a batch.
   */
  gatherMs?: number;
  /**
   * The same after a probe that found {@link MANY_CALLS} or more; `gatherMs` by default. Under load, more latency is acceptable
   * for less CPU time.
   */
  gatherManyMs?: number;
  /** So many calls don't wait for more; `maxBatchSize` by default. */
  enough?: number;
  /** A call with such an item does not wait for more, nor do the calls before it. */
  isUrgent?: (item: T) => boolean;
  /**
   * Time after which a batch waits for the whole time again, as a probe. The other batches start as soon as they have as
   * many calls as the last probe collected. So callers who each wait for their result before the next call wait for no calls
   * besides their own, except in probes. By default every batch waits for the whole time.
   */
  probeEveryMs?: number;
}

/**
 * Coalesces many single calls into few batches: while one batch is in flight, the next one collects calls. A single
 * call is handled at once, and concurrent calls share a round trip (and the sync of MongoDB's journal).
 *
 * @param handleBatch handles one batch; if it throws, every call of that batch fails with its error
 * @param operation name of the calls in the metrics
 */
export function createBatcher<T, R>(
  operation: BatchedOperation,
  handleBatch: BatchHandler<T, R>,
  {
    maxBatchSize = 1_000,
    maxInFlight = 1,
    maxSlow = 0,
    gatherMs = 0,
    gatherManyMs = gatherMs,
    enough = maxBatchSize,
    isUrgent = () => false,
    probeEveryMs,
  }: BatcherLimits<T> = {},
): (item: T) => Promise<R> {
  let pendingCalls: PendingCall<T, R>[] = [];
  let hasUrgent = false;
  let running = 0;
  let slow = 0;
  let startedAt = Number.NEGATIVE_INFINITY;
  /** Calls for which a batch waits, from the last probe. */
  let expected = probeEveryMs === undefined ? Number.POSITIVE_INFINITY : 1;
  let nextProbeAt = Number.NEGATIVE_INFINITY;
  /** Runs while calls wait for others. */
  let timer: NodeJS.Timeout | undefined;
  const counts = batchedCountsOf(operation);

  async function runBatch(batch: PendingCall<T, R>[]): Promise<void> {
    running += 1;
    counts.writes += 1;
    counts.items += batch.length;
    let isSlow = false;
    const becomeSlow = () => {
      isSlow = true;
      slow += 1;
      startBatches();
    };
    const slowTimer = maxSlow > 0 ? setTimeout(becomeSlow, SLOW_AFTER_MS) : undefined;
    try {
      settleCalls(batch, await handleBatch(batch.map((call) => call.item)));
    } catch (error) {
      for (const call of batch) call.reject(error);
    } finally {
      clearTimeout(slowTimer);
      running -= 1;
      if (isSlow) slow -= 1;
      startBatches();
    }
  }

  /** Returns the milliseconds for which the calls wait for others. */
  function remainingMs(now: number): number {
    if (hasUrgent) return 0;
    const isProbe = now >= nextProbeAt;
    if (pendingCalls.length >= (isProbe ? enough : Math.min(enough, expected))) return 0;
    return startedAt + (expected < MANY_CALLS ? gatherMs : gatherManyMs) - now;
  }

  /** Takes the calls of the next batch. */
  function takeBatch(now: number): PendingCall<T, R>[] {
    const batch = pendingCalls.slice(0, maxBatchSize);
    pendingCalls = pendingCalls.slice(maxBatchSize);
    hasUrgent &&= pendingCalls.some(({ item }) => isUrgent(item));
    if (probeEveryMs !== undefined && now >= nextProbeAt) {
      expected = batch.length;
      const isAfterPause = now - startedAt >= probeEveryMs;
      nextProbeAt = now + probeEveryMs * (isAfterPause ? FIRST_PROBE : 1);
    }
    startedAt = now;
    return batch;
  }

  function startBatches(): void {
    while (running - Math.min(slow, maxSlow) < maxInFlight && pendingCalls.length > 0) {
      const now = performance.now();
      const waitMs = remainingMs(now);
      // A timer takes whole milliseconds.
      if (waitMs >= 1) {
        timer ??= setTimeout(() => {
          timer = undefined;
          startBatches();
        }, waitMs);
        return;
      }
      clearTimeout(timer);
      timer = undefined;
      void runBatch(takeBatch(now));
    }
  }

  return (item) =>
    new Promise((resolve, reject) => {
      pendingCalls.push({ item, resolve, reject });
      const { length } = pendingCalls;
      hasUrgent ||= isUrgent(item);
      // Collects the calls of one turn of the event loop before the first batch starts.
      if (hasUrgent || length === 1 || length === enough || length === expected)
        queueMicrotask(startBatches);
    });
}

function settleCalls<T, R>(
  calls: readonly PendingCall<T, R>[],
  results: readonly (R | Error)[],
): void {
  for (const [index, call] of calls.entries()) {
    const result = results[index];
    if (result instanceof Error) call.reject(result);
    else call.resolve(result as R);
  }
}
