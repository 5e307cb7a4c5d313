import { setTimeout as sleep } from 'node:timers/promises';
import { createBatcher } from '@carillon/core/batcher';
import { countAttributes } from '@carillon/core/tracing';
import type { GatewayChannel } from '@carillon/presence/gateway-channel';
import type { DeliveryResult } from '@carillon/presence/replies';
import type { Producers } from '@carillon/queue/producers';
import type { Store } from '@carillon/store/store';
import type { Connection, DeliveryRef, InFlightPublish, PendingReply } from './connection.ts';
import type { GatewayMetrics } from './metrics.ts';

/** Time from the write to the PUBACK after which a push counts as unacknowledged. */
const ACK_TIMEOUT_MS = 1_000;
const CHECK_INTERVAL_MS = 50;
/** Bounds the memory: above it receipts are dropped, and their devices receive those pushes again. */
const MAX_PENDING = 50_000;
const MAX_RETRY_MS = 5_000;
const FLUSH_TIMEOUT_MS = 5_000;

export type WorkerReplies = ReturnType<typeof createWorkerReplies>;

/**
 * Replies to workers with the result of each delivery: at once, with the PUBACK, or after a second without one.
 *
 * The timeouts hold connections, not pushes: nearly all pushes are acknowledged within milliseconds, and one entry
 * for each of them would live a second, long enough to burden the garbage collector.
 *
 * @param channel returns the channel to the workers, which exists once a device can connect
 */
export function createWorkerReplies(
  channel: () => Pick<GatewayChannel, 'reply'>,
  metrics: Pick<GatewayMetrics, 'countReply'>,
) {
  const awaitingAck = new Set<Connection>();
  /** Runs while a worker waits for a PUBACK. */
  let timer: NodeJS.Timeout | undefined;

  function reply(to: PendingReply, result: DeliveryResult): void {
    to.span?.record(result);
    metrics.countReply(result);
    channel().reply(to, result);
  }

  /** Replies to the workers whose deadline has passed; returns whether other workers still wait. */
  function expireAcks(connection: Connection, now: number): boolean {
    let isAwaited = false;
    for (const publish of connection.inFlight) {
      for (const pendingReply of publish.pendingReplies) {
        if (pendingReply.isReplied) continue;
        if (pendingReply.ackDeadline > now) isAwaited = true;
        else expireAck(connection, publish, pendingReply);
      }
    }
    return isAwaited;
  }

  function expireAck(
    connection: Connection,
    publish: InFlightPublish,
    pendingReply: PendingReply,
  ): void {
    pendingReply.isReplied = true;
    // The worker no longer waits: a late receipt is recorded in MongoDB by the gateway.
    publish.mustRecordReceipt = true;
    if (pendingReply.rowsWrittenBy !== undefined)
      connection.recheckInboxAt(pendingReply.rowsWrittenBy);
    reply(pendingReply, 'unacked');
  }

  function stop(): void {
    clearInterval(timer);
    timer = undefined;
  }

  function checkTimeouts(): void {
    const now = performance.now();
    for (const connection of awaitingAck) {
      if (!expireAcks(connection, now)) awaitingAck.delete(connection);
    }
    if (awaitingAck.size === 0) stop();
  }

  return {
    reply,
    /** Replies with the PUBACK of `publish`, or `unacked` after a second. */
    awaitAck(connection: Connection, publish: InFlightPublish, pendingReply: PendingReply): void {
      pendingReply.ackDeadline = performance.now() + ACK_TIMEOUT_MS;
      publish.pendingReplies.push(pendingReply);
      awaitingAck.add(connection);
      timer ??= setInterval(checkTimeouts, CHECK_INTERVAL_MS);
    },
    /** Replies to every worker that still waits for this push, and ends the span of its replay. */
    settle(publish: InFlightPublish, result: 'acknowledged' | 'unacked'): void {
      publish.span?.end(countAttributes('result', { [result]: 1 }));
      for (const pendingReply of publish.pendingReplies) {
        if (pendingReply.isReplied) continue;
        pendingReply.isReplied = true;
        reply(pendingReply, result);
      }
    },
    stop,
  };
}

export type Receipts = ReturnType<typeof createReceipts>;

/** Records the receipts that no worker waits for in MongoDB; retries until MongoDB accepts them. */
export function createReceipts(
  receiptTable: Pick<Store['receipts'], 'record'>,
  producers: Pick<Producers, 'checkCompletion'>,
) {
  let pendingCount = 0;
  let isStopping = false;

  const recordBatched = createBatcher<DeliveryRef, void>(
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
      recordBatched({ push, work, position, rowId, ...(notify && { notify }) })
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
