import { type BatchedOperation, batchedCountsOf } from './process-counts.ts';

/** Handles one batch. Returns a result or an Error for each item, in order. */
export type BatchHandler<T, R> = (items: T[]) => Promise<readonly (R | Error)[]>;

interface PendingCall<T, R> {
  item: T;
  resolve: (result: R) => void;
  reject: (error: unknown) => void;
}

/**
 * Coalesces many single calls into few batches: while one batch is in flight, the next one collects calls. A single
 * call is handled at once, and concurrent calls share a round trip (and the sync of MongoDB's journal).
 *
 * @param handleBatch handles one batch; if it throws, every call of that batch fails with its error
 * @param operation name of the calls in the metrics
 * @param limits items per batch, and batches in flight at once
 */
export function createBatcher<T, R>(
  operation: BatchedOperation,
  handleBatch: BatchHandler<T, R>,
  { maxBatchSize = 1_000, maxInFlight = 1 }: { maxBatchSize?: number; maxInFlight?: number } = {},
): (item: T) => Promise<R> {
  let pendingCalls: PendingCall<T, R>[] = [];
  let running = 0;
  const counts = batchedCountsOf(operation);

  async function runBatch(batch: PendingCall<T, R>[]): Promise<void> {
    running += 1;
    counts.writes += 1;
    counts.items += batch.length;
    try {
      const results = await handleBatch(batch.map((call) => call.item));
      for (const [index, call] of batch.entries()) {
        const result = results[index];
        if (result instanceof Error) call.reject(result);
        else call.resolve(result as R);
      }
    } catch (error) {
      for (const call of batch) call.reject(error);
    } finally {
      running -= 1;
      startBatches();
    }
  }

  function startBatches(): void {
    while (running < maxInFlight && pendingCalls.length > 0) {
      const batch = pendingCalls.slice(0, maxBatchSize);
      pendingCalls = pendingCalls.slice(maxBatchSize);
      void runBatch(batch);
    }
  }

  return (item) =>
    new Promise((resolve, reject) => {
      pendingCalls.push({ item, resolve, reject });
      // Collects the calls of one turn of the event loop before the first batch starts.
      if (pendingCalls.length === 1) queueMicrotask(startBatches);
    });
}
