import { setTimeout as sleep } from 'node:timers/promises';
import { createBatcher } from '@carillon/core/batcher';
import type { Producers } from '@carillon/queue/producers';
import type { EndedInboxRow } from '@carillon/store/final-outcomes';
import type { Store } from '@carillon/store/store';
import type { Connection } from './connection.ts';
import type { DeliveryRef } from './delivery-ref.ts';

/**
 * Maximum pending receipts, which bounds the memory. Further ones are dropped, and their devices receive those pushes
 * again.
 */
const MAX_PENDING = 50_000;
/** Maximum delay between two tries to record receipts. */
const MAX_RETRY_MS = 5_000;
/** Maximum wait for pending receipts at a stop. */
const FLUSH_TIMEOUT_MS = 5_000;

export type Receipts = ReturnType<typeof createReceipts>;

/** Records the receipts that no worker waits for in MongoDB; retries until MongoDB accepts them. */
export function createReceipts(
  receiptTable: Pick<Store['receipts'], 'record'>,
  producers: Pick<Producers, 'checkCompletion'>,
) {
  let pendingCount = 0;
  let isStopping = false;

  const recordBatched = createBatcher<EndedInboxRow, void>(
    'collect-receipt',
    async (receipts) => {
      for (let retryMs = 100; ; retryMs = Math.min(retryMs * 2, MAX_RETRY_MS)) {
        try {
          await receiptTable.record(receipts);
          break;
        } catch (error) {
          if (isStopping) throw error;
          await sleep(retryMs);
        }
      }
      void producers.checkCompletion([...new Set(receipts.map(({ push }) => push))]);
      return receipts.map(() => undefined);
    },
    { maxBatchSize: 1_000, maxInFlight: 2 },
  );

  return {
    record(connection: Connection, { push, work, position, rowId, notify }: DeliveryRef): void {
      if (pendingCount >= MAX_PENDING) return;
      pendingCount += 1;
      connection.receiptStarted();
      recordBatched({
        ...{ app: connection.app.app, push, work, position, rowId },
        ...(notify && { notify }),
      })
        .catch(() => undefined)
        .finally(() => {
          pendingCount -= 1;
          connection.receiptFinished();
        });
    },
    /** Waits until all receipts are recorded, 5 s at most. */
    async flush(): Promise<void> {
      isStopping = true;
      const deadline = performance.now() + FLUSH_TIMEOUT_MS;
      while (pendingCount > 0 && performance.now() < deadline) await sleep(20);
    },
  };
}
