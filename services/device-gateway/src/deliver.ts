import { setImmediate as turn } from 'node:timers/promises';
import type { Addressee, Answer, HandedOver } from '@carillon/presence/gateway-link';
import type { Connection, Sent } from './connection.ts';
import { encodePublish, type PublishPacket } from './publish-packet.ts';

/** Sockets written before PUBACKs get their turn. */
const SLICE = 200;
/** After a hand-over's deadline a worker has written its rows within this time. */
const ROWS_WRITTEN_MS = 2_000;

export interface DeliverDeps {
  find(token: string): Connection | undefined;
  answer(to: Addressee, answer: Answer): void;
  /** Answers later: with the PUBACK, or for want of it. */
  await(connection: Connection, sent: Sent, to: Addressee, rowWrittenAt: number): void;
  /** Whether too much waits in sockets already. */
  isStrained(): boolean;
  /** Milliseconds, Redis's time. */
  redisNow(): number;
  /** Milliseconds, MongoDB's time. */
  mongoNow(): number;
  rowId(delivery: Pick<HandedOver, 'push' | 'collapse'> & { token: string }): string;
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
      for (const [index, token] of tokens.entries()) {
        deliverOne(deps, delivery, packet, token, positions[index] ?? 0);
        unwritten -= 1;
        if (index % SLICE === SLICE - 1) await turn();
      }
    },
    unwritten: () => unwritten,
  };
}

function deliverOne(
  deps: DeliverDeps,
  delivery: HandedOver,
  packet: PublishPacket,
  token: string,
  position: number,
): void {
  const { push, work, claim, reply, collapse } = delivery;
  const to: Addressee = { reply, work, claim, position };
  const connection = deps.find(token);
  if (connection === undefined || !connection.isOpen()) {
    deps.answer(to, 'not-here');
    return;
  }
  let sent = connection.findInFlight(push);
  if (sent === undefined) {
    const obstacle = findObstacle(deps, delivery, connection);
    if (obstacle !== undefined) {
      deps.answer(to, obstacle);
      return;
    }
    sent = connection.send(packet, {
      ...{ push, work, position, rowId: deps.rowId({ ...delivery, token }) },
      ...(collapse !== undefined && { collapse }),
    });
    deps.published();
  }
  deps.await(connection, sent, to, rowsWrittenAt(deps, delivery));
}

/** Why a push isn't written to this connection; the order of the questions matters. */
function findObstacle(
  deps: DeliverDeps,
  delivery: HandedOver,
  connection: Connection,
): Answer | undefined {
  const { push, collapse, deadline, expiresAt } = delivery;
  if (connection.hasAcknowledged(push)) return 'acknowledged';
  if (connection.hasNewer(collapse, push)) return 'superseded';
  if (connection.state === 'draining') {
    connection.rowsDue ??= new Map();
    connection.rowsDue.set(push, rowsWrittenAt(deps, delivery));
    return 'draining';
  }
  // Without Redis's time (NaN) nothing is known to be in time.
  const isInTime = deps.redisNow() < deadline && deps.mongoNow() < expiresAt;
  if (!isInTime || deps.isStrained()) {
    connection.lookAt = rowsWrittenAt(deps, delivery);
    return 'not-written';
  }
  if (connection.isFull()) {
    // What comes next must not overtake this one: it waits in the inbox too.
    deps.drain(connection, rowsWrittenAt(deps, delivery));
    return 'refused';
  }
  return undefined;
}

/** When the rows of a hand-over are written at the latest, by the monotonic clock. */
function rowsWrittenAt({ redisNow }: DeliverDeps, { deadline }: HandedOver): number {
  const left = deadline - redisNow();
  return performance.now() + Math.max(0, left || 0) + ROWS_WRITTEN_MS;
}
