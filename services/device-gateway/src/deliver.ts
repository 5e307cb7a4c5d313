import { setImmediate as turn } from 'node:timers/promises';
import type { Answer, HandedOver } from '@carillon/presence/gateway-link';
import type { Connection, Sent, Waiter } from './connection.ts';
import { encodePublish, type PublishPacket } from './publish-packet.ts';

/** Sockets written before PUBACKs get their turn. */
const SLICE = 200;
/** After a hand-over's deadline a worker has written its rows within this time. */
const ROWS_WRITTEN_MS = 2_000;

export interface DeliverDeps {
  find(token: string): Connection | undefined;
  answer(to: Waiter, answer: Answer): void;
  /** Answers later: with the PUBACK, or for want of it. */
  await(connection: Connection, sent: Sent, waiter: Waiter): void;
  /** Whether too much waits in sockets already. */
  isStrained(): boolean;
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
  /** Recipients that have come but were not written yet. */
  unwritten(): number;
}

export function createDelivering(deps: DeliverDeps): Delivering {
  let unwritten = 0;

  return {
    async deliver(delivery) {
      const { tokens, positions } = delivery;
      const packet = encodePublish(delivery.push, delivery.payload);
      unwritten += tokens.length;
      for (let from = 0; from < tokens.length; from += SLICE) {
        if (from > 0) await turn();
        const moment = readClocks(deps, delivery);
        const end = Math.min(from + SLICE, tokens.length);
        for (let n = from; n < end; n += 1) {
          deliverOne(deps, { delivery, packet, moment }, tokens[n] ?? '', positions[n] ?? 0);
        }
        unwritten -= end - from;
      }
    },
    unwritten: () => unwritten,
  };
}

/** What the clocks say of a delivery; read once for a slice, which takes milliseconds. */
interface Moment {
  isInTime: boolean;
  /** When the rows of the hand-over are written at the latest, by the monotonic clock. */
  rowsWrittenAt: number;
}

function readClocks(deps: DeliverDeps, { deadline, expiresAt }: HandedOver): Moment {
  const left = deadline - deps.redisNow();
  return {
    // Without Redis's time (NaN) nothing is known to be in time.
    isInTime: left > 0 && deps.mongoNow() < expiresAt,
    rowsWrittenAt: performance.now() + Math.max(0, left || 0) + ROWS_WRITTEN_MS,
  };
}

/** A delivery in one slice of its way to the sockets. */
interface Slice {
  delivery: HandedOver;
  packet: PublishPacket;
  moment: Moment;
}

function deliverOne(deps: DeliverDeps, slice: Slice, token: string, position: number): void {
  const { delivery, packet, moment } = slice;
  const { push, work, claim, reply, collapse } = delivery;
  const { rowsWrittenAt } = moment;
  const waiter: Waiter = { reply, work, claim, position, rowsWrittenAt, until: 0, answered: false };
  const connection = deps.find(token);
  if (connection === undefined || !connection.isOpen()) {
    deps.answer(waiter, 'not-here');
    return;
  }
  let sent = connection.findInFlight(push);
  if (sent === undefined) {
    const obstacle = findObstacle(deps, slice, connection);
    if (obstacle !== undefined) {
      deps.answer(waiter, obstacle);
      return;
    }
    const rowId = deps.rowId(collapse === undefined ? { token, push } : { token, push, collapse });
    sent = connection.send(packet, { push, work, position, rowId }, collapse);
    deps.published();
  }
  deps.await(connection, sent, waiter);
}

/** Why a push isn't written to this connection; the order of the questions matters. */
function findObstacle(
  deps: DeliverDeps,
  { delivery, moment }: Slice,
  connection: Connection,
): Answer | undefined {
  const { push, collapse } = delivery;
  const { rowsWrittenAt } = moment;
  if (connection.hasAcknowledged(push)) return 'acknowledged';
  if (connection.hasNewer(collapse, push)) return 'superseded';
  if (connection.state === 'draining') {
    connection.rowsDue ??= new Map();
    // The first word holds: asking again and again doesn't put off the time at which it goes live.
    if (!connection.rowsDue.has(push)) connection.rowsDue.set(push, rowsWrittenAt);
    return 'draining';
  }
  if (!moment.isInTime || deps.isStrained()) {
    connection.lookAt = rowsWrittenAt;
    return 'not-written';
  }
  if (connection.isFull()) {
    // What comes next must not overtake this one: it waits in the inbox too.
    deps.drain(connection, rowsWrittenAt);
    return 'refused';
  }
  return undefined;
}
