import { type BatchedOperation, batchedCountsOf } from './process-counts.ts';

/** Handles one batch. Returns a result or an Error for each item, in order. */
export type BatchHandler<T, R> = (items: T[]) => Promise<readonly (R | Error)[]>;

interface PendingCall<T, R> {
  item: T;
  resolve: (result: R) => void;
  reject: (error: unknown) => void;
}

/** Limits of the batches that calls are collected into. */
interface BatcherLimits<T> {
  /** Most items of a batch. */
  maxBatchSize?: number;
  /** Most batches in flight at once. */
  maxInFlight?: number;
  /**
   * Least time between the starts of two batches. The first call after a pause of this length starts at once; at higher rates
   * calls wait, so that more of them share a batch.
   */
  gatherMs?: number;
  /** So many calls don't wait for more; `maxBatchSize` by default. */
  enough?: number;
  /** A call with such an item does not wait for more, nor do the calls before it. */
  isUrgent?: (item: T) => boolean;
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
    gatherMs = 0,
    enough = maxBatchSize,
    isUrgent = () => false,
  }: BatcherLimits<T> = {},
): (item: T) => Promise<R> {
  let pendingCalls: PendingCall<T, R>[] = [];
  let hasUrgent = false;
  let running = 0;
  let startedAt = Number.NEGATIVE_INFINITY;
  /** Runs while calls wait for others. */
  let timer: NodeJS.Timeout | undefined;
  const counts = batchedCountsOf(operation);

  async function runBatch(batch: PendingCall<T, R>[]): Promise<void> {
    running += 1;
    counts.writes += 1;
    counts.items += batch.length;
    try {
      settleCalls(batch, await handleBatch(batch.map((call) => call.item)));
    } catch (error) {
      for (const call of batch) call.reject(error);
    } finally {
      running -= 1;
      startBatches();
    }
  }

  function startBatches(): void {
    while (running < maxInFlight && pendingCalls.length > 0) {
      const now = performance.now();
      const isReady = hasUrgent || pendingCalls.length >= enough;
      const waitMs = isReady ? 0 : startedAt + gatherMs - now;
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
      startedAt = now;
      const batch = pendingCalls.slice(0, maxBatchSize);
      pendingCalls = pendingCalls.slice(maxBatchSize);
      hasUrgent &&= pendingCalls.some(({ item }) => isUrgent(item));
      void runBatch(batch);
    }
  }

  return (item) =>
    new Promise((resolve, reject) => {
      pendingCalls.push({ item, resolve, reject });
      hasUrgent ||= isUrgent(item);
      // Collects the calls of one turn of the event loop before the first batch starts.
      if (hasUrgent || pendingCalls.length === 1 || pendingCalls.length === enough)
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
