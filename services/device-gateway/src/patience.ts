import type { Addressee, Answer } from '@carillon/presence/gateway-link';
import type { Connection, Sent, Waiter } from './connection.ts';

/** A device has a second from the write to acknowledge. */
const PATIENCE_MS = 1_000;

interface Awaited {
  until: number;
  connection: Connection;
  sent: Sent;
  waiter: Waiter;
  /** When the worker has written the row of a silent device. */
  rowWrittenAt: number;
}

/** Waits for PUBACKs on behalf of workers. */
export interface Patience {
  /** The worker is answered by the PUBACK of `sent`, or `silent` after a second. */
  await(connection: Connection, sent: Sent, to: Addressee, rowWrittenAt: number): void;
  /** Answers for devices that were silent; to be called often. */
  answerSilent(): void;
}

/** One list for all: since everybody waits equally long, it is in the order of the ends. */
export function createPatience(answer: (to: Addressee, answer: Answer) => void): Patience {
  const awaited: Awaited[] = [];

  return {
    await(connection, sent, { reply, work, claim, position }, rowWrittenAt) {
      const waiter: Waiter = { reply, work, claim, position, answered: false };
      sent.waiters.push(waiter);
      const until = performance.now() + PATIENCE_MS;
      awaited.push({ until, connection, sent, waiter, rowWrittenAt });
    },
    answerSilent() {
      const now = performance.now();
      const end = awaited.findIndex(({ until }) => until > now);
      const over = awaited.splice(0, end < 0 ? awaited.length : end);
      for (const { connection, sent, waiter, rowWrittenAt } of over) {
        if (waiter.answered) continue;
        waiter.answered = true;
        // Nobody waits any more: the receipt, when it comes, goes to MongoDB.
        sent.toRecord = true;
        connection.lookAt = rowWrittenAt;
        answer(waiter, 'silent');
      }
    },
  };
}
