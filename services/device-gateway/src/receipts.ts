import { setTimeout as sleep } from 'node:timers/promises';
import { createGroup } from '@carillon/core/group';
import type { Connection, Owed } from './connection.ts';

/** Beyond it receipts are let go, and their devices get those pushes once more: memory is bounded. */
const MAX_WAITING = 50_000;
const RETRY_CAP_MS = 5_000;
const FLUSH_DEADLINE_MS = 5_000;

export interface ReceiptDeps {
  /** Writes receipts durably. Throws when MongoDB fails. */
  record(receipts: readonly Owed[]): Promise<void>;
  /** Has it looked whether these pushes have come to their end. */
  finish(pushes: readonly string[]): Promise<void>;
}

/** Receipts that no hand-over waits for: the gateway writes them itself. */
export interface Receipts {
  record(connection: Connection, owed: Owed): void;
  /** Waits until all are written, for 5 s at most. */
  flush(): Promise<void>;
}

export function createReceipts({ record, finish }: ReceiptDeps): Receipts {
  let waiting = 0;
  let isEnding = false;

  const recordGrouped = createGroup<Owed, void>(
    async (receipts) => {
      for (let retryMs = 100; ; retryMs = Math.min(retryMs * 2, RETRY_CAP_MS)) {
        try {
          await record(receipts);
          break;
        } catch (error) {
          if (isEnding) throw error;
          await sleep(retryMs);
        }
      }
      void finish([...new Set(receipts.map(({ push }) => push))]);
      return receipts.map(() => undefined);
    },
    { maxItems: 1_000, inFlight: 2 },
  );

  return {
    record(connection, { push, work, position, rowId }) {
      if (waiting >= MAX_WAITING) return;
      waiting += 1;
      connection.recording += 1;
      recordGrouped({ push, work, position, rowId })
        .catch(() => undefined)
        .finally(() => {
          waiting -= 1;
          connection.recording -= 1;
          connection.wake?.();
        });
    },
    async flush() {
      isEnding = true;
      const end = performance.now() + FLUSH_DEADLINE_MS;
      while (waiting > 0 && performance.now() < end) await sleep(20);
    },
  };
}
