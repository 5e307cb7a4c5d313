import type { Answer } from '@carillon/presence/gateway-link';
import type { Connection, Sent, Waiter } from './connection.ts';

/** A device has a second from the write to acknowledge. */
const PATIENCE_MS = 1_000;

const LOOK_EVERY_MS = 50;

/** Waits for PUBACKs on behalf of workers. */
export interface Patience {
  /** The worker is answered by the PUBACK of `sent`, or `silent` after a second. */
  await(connection: Connection, sent: Sent, waiter: Waiter): void;
  stop(): void;
}

/**
 * Keeps only who is waited for: nearly all acknowledge within milliseconds, and an entry for each of their
 * messages would live a second, long enough to burden the collector.
 */
export function createPatience(answer: (to: Waiter, answer: Answer) => void): Patience {
  const awaited = new Set<Connection>();
  /** Runs while somebody is waited for. */
  let timer: NodeJS.Timeout | undefined;

  /** Whether somebody still waits for this connection. */
  function answerFor(connection: Connection, now: number): boolean {
    let isAwaited = false;
    for (const sent of connection.inFlight) {
      for (const waiter of sent.waiters) {
        if (waiter.answered) continue;
        if (waiter.until > now) isAwaited = true;
        else {
          waiter.answered = true;
          // Nobody waits any more: the receipt, when it comes, goes to MongoDB.
          sent.toRecord = true;
          connection.lookAt = waiter.rowsWrittenAt;
          answer(waiter, 'silent');
        }
      }
    }
    return isAwaited;
  }

  function stop(): void {
    clearInterval(timer);
    timer = undefined;
  }

  function answerSilent(): void {
    const now = performance.now();
    for (const connection of awaited) {
      connection.isAwaited = answerFor(connection, now);
      if (!connection.isAwaited) awaited.delete(connection);
    }
    if (awaited.size === 0) stop();
  }

  return {
    await(connection, sent, waiter) {
      waiter.until = performance.now() + PATIENCE_MS;
      sent.waiters.push(waiter);
      if (connection.isAwaited) return;
      connection.isAwaited = true;
      awaited.add(connection);
      timer ??= setInterval(answerSilent, LOOK_EVERY_MS);
    },
    stop,
  };
}
