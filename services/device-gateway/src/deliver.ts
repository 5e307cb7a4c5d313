import { setImmediate as turn } from 'node:timers/promises';
import type { Addressee, Answer, HandedOver } from '@carillon/presence/gateway-link';
import type { Connection } from './connection.ts';
import { encodePublish, type PublishPacket } from './publish-packet.ts';

/** Sockets written before PUBACKs get their turn. */
const SLICE = 200;
/** A device has a second from the write to acknowledge. */
const PATIENCE_MS = 1_000;
/** After a hand-over's deadline a worker has written its rows within this time. */
const ROWS_WRITTEN_MS = 2_000;

export interface DeliverDeps {
  find(token: string): Connection | undefined;
  answer(to: Addressee, answer: Answer): void;
  /** Milliseconds, Redis's time. */
  redisNow(): number;
  /** Milliseconds, MongoDB's time. */
  mongoNow(): number;
  rowId(delivery: { token: string; push: string; collapse?: string }): string;
  /** Reads a connection's inbox, not before a moment of the monotonic clock. */
  drain(connection: Connection, notBefore: number): void;
  published(): void;
}

/** Hands deliveries to live connections and answers for each recipient. */
export interface Delivering {
  deliver(delivery: HandedOver): Promise<void>;
  /** Answers for devices that were silent for a second; to be called often. */
  answerSilent(): void;
  /** Recipients that have come but were not written yet. */
  unwritten(): number;
}

interface Patience {
  until: number;
  connection: Connection;
  waiter: Addressee & { answered: boolean };
  lookAt: number;
  sent: { toRecord: boolean };
}

export function createDelivering(deps: DeliverDeps): Delivering {
  // In the order of their end, since all wait equally long.
  let patient: Patience[] = [];
  let unwritten = 0;

  /** When the rows of a hand-over are written at the latest, by the monotonic clock. */
  function rowsWrittenAt(delivery: HandedOver): number {
    const left = delivery.deadline - deps.redisNow();
    return performance.now() + Math.max(0, left || 0) + ROWS_WRITTEN_MS;
  }

  function deliverOne(
    delivery: HandedOver,
    packet: PublishPacket,
    token: string,
    position: number,
  ): Answer | undefined {
    const { push, work, collapse } = delivery;
    const connection = deps.find(token);
    if (connection === undefined || !connection.isOpen()) return 'not-here';
    if (connection.hasAcknowledged(push)) return 'acknowledged';
    const present = connection.findInFlight(push);
    if (present === undefined) {
      if (connection.hasNewer(collapse, push)) return 'superseded';
      if (connection.state === 'draining') return 'draining';
      if (isTooLate(delivery)) {
        connection.lookAt = rowsWrittenAt(delivery);
        return 'not-written';
      }
      if (connection.isFull()) {
        // What comes next must not overtake this one: it waits in the inbox too.
        deps.drain(connection, rowsWrittenAt(delivery));
        return 'refused';
      }
    }
    const rowId = deps.rowId({ token, push, ...(collapse !== undefined && { collapse }) });
    const owed = { push, work, position, rowId, ...(collapse !== undefined && { collapse }) };
    const sent = present ?? connection.send(packet, owed);
    if (present === undefined) deps.published();
    const { reply, claim } = delivery;
    const waiter = { reply, work, claim, position, answered: false };
    sent.waiters.push(waiter);
    const until = performance.now() + PATIENCE_MS;
    patient.push({ until, connection, waiter, sent, lookAt: rowsWrittenAt(delivery) });
    return undefined;
  }

  /** Without Redis's time nothing is known to be in time. */
  function isTooLate({ deadline, expiresAt }: HandedOver): boolean {
    return !(deps.redisNow() < deadline) || deps.mongoNow() >= expiresAt;
  }

  return {
    async deliver(delivery) {
      const { tokens, positions, reply, work, claim } = delivery;
      const packet = encodePublish(delivery.push, delivery.payload);
      unwritten += tokens.length;
      for (const [index, token] of tokens.entries()) {
        const position = positions[index] ?? 0;
        const answer = deliverOne(delivery, packet, token, position);
        unwritten -= 1;
        if (answer !== undefined) deps.answer({ reply, work, claim, position }, answer);
        if (index % SLICE === SLICE - 1) await turn();
      }
    },
    answerSilent() {
      const now = performance.now();
      const end = patient.findIndex(({ until }) => until > now);
      const over = end < 0 ? patient : patient.slice(0, end);
      if (over.length === 0) return;
      patient = end < 0 ? [] : patient.slice(end);
      for (const { waiter, connection, sent, lookAt } of over) {
        if (waiter.answered) continue;
        waiter.answered = true;
        sent.toRecord = true;
        connection.lookAt = lookAt;
        deps.answer(waiter, 'silent');
      }
    },
    unwritten: () => unwritten,
  };
}
