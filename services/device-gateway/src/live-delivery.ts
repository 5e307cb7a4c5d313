import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { failpoint } from '@carillon/core/failpoint';
import { countAttributes, type Tracer } from '@carillon/core/tracing';
import type { GatewayChannel } from '@carillon/presence/gateway-channel';
import type { ReceivedDelivery } from '@carillon/presence/gateway-messages';
import type { DeliveryResult } from '@carillon/presence/replies';
import { rowId } from '@carillon/store/inbox';
import type { Store } from '@carillon/store/store';
import type { Connection, InFlightPublish, PendingReply } from './connection.ts';
import type { Connections } from './connections.ts';
import type { DeliveryRef } from './delivery-ref.ts';
import { type DispatchSpan, startDispatchSpan } from './dispatch-span.ts';
import type { HeldPush } from './expected-rows.ts';
import type { InboxReplay } from './inbox-replay.ts';
import type { GatewayMetrics } from './metrics.ts';
import { encodePublish, type PublishPacket } from './publish-packet.ts';

/** Sockets written before PUBACKs are handled again. */
const SOCKETS_PER_SLICE = 200;
/** Time after the deadline of a dispatch within which the worker has written its inbox rows. */
const ROWS_WRITTEN_WITHIN_MS = 2_000;
/** Time from the write to the PUBACK after which a push counts as unacknowledged. */
const ACK_TIMEOUT_MS = 1_000;
const ACK_CHECK_INTERVAL_MS = 50;

/** Times that apply to one slice of a dispatch; read once a slice, which takes milliseconds. */
interface Deadlines {
  isBeforeDeadline: boolean;
  /** End of the deadline, monotonic. */
  writeBy: number;
  /** Latest time at which the inbox rows of the dispatch are written, monotonic; undefined: no rows are written. */
  rowsWrittenBy: number | undefined;
}

/** The recipients of a dispatch that are written together. */
interface DeliverySlice {
  delivery: ReceivedDelivery;
  packet: PublishPacket;
  deadlines: Deadlines;
  /** Set if the push is traced. */
  span: DispatchSpan | undefined;
}

/** The parts of the gateway that live delivery uses. */
interface DeliveryContext {
  /** Returns the channel to Redis, whose time the deadlines use. */
  channel(): Pick<GatewayChannel, 'now'>;
  clock: Pick<Store['clock'], 'now'>;
  connections: Connections;
  replies: WorkerReplies;
  inboxReplay: Pick<InboxReplay, 'replay'>;
  metrics: GatewayMetrics;
  tracer?: Tracer | undefined;
}

/** Writes dispatched pushes to live connections and replies with a result for each recipient. */
export function createLiveDelivery(context: DeliveryContext) {
  const { connections, replies, inboxReplay, metrics, tracer } = context;
  let pendingWrites = 0;

  function deliverOne(slice: DeliverySlice, token: string, position: number): void {
    const { delivery, packet, deadlines, span } = slice;
    const { push, work, claim, reply, shard, collapse, notify } = delivery;
    const { rowsWrittenBy } = deadlines;
    const pendingReply: PendingReply = {
      reply,
      shard,
      work,
      claim,
      position,
      rowsWrittenBy,
      ackDeadline: 0,
      isReplied: false,
      span,
      trace: span?.traceparent,
    };
    const connection = connections.find(token);
    if (connection === undefined || !connection.isOpen()) {
      replies.reply(pendingReply, 'not-connected');
      return;
    }
    let publish = connection.findInFlight(push);
    if (publish === undefined) {
      const row = rowId(collapse === undefined ? { token, push } : { token, push, collapse });
      const ref = { push, work, position, rowId: row, ...(notify && { notify }) };
      const rejection = findRejection(slice, ref, connection, inboxReplay);
      if (rejection !== undefined) {
        replies.reply(pendingReply, rejection);
        return;
      }
      publish = connection.send(packet, ref, collapse);
      failpoint('publish', token);
      metrics.countPublish('live');
    }
    replies.awaitAck(connection, publish, pendingReply);
  }

  return {
    async deliver(delivery: ReceivedDelivery): Promise<void> {
      const { tokens, positions } = delivery;
      const packet = encodePublish(delivery.push, delivery.payload);
      const span = tracer && startDispatchSpan(tracer, delivery);
      pendingWrites += tokens.length;
      for (let from = 0; from < tokens.length; from += SOCKETS_PER_SLICE) {
        if (from > 0) await yieldToEventLoop();
        const slice = { delivery, packet, deadlines: readDeadlines(context, delivery), span };
        const end = Math.min(from + SOCKETS_PER_SLICE, tokens.length);
        for (let n = from; n < end; n += 1) deliverOne(slice, tokens[n] ?? '', positions[n] ?? 0);
        pendingWrites -= end - from;
      }
      replies.reportHandled(delivery);
    },
    /** Recipients that were dispatched to this gateway and not handled yet. */
    pendingWrites: (): number => pendingWrites,
  };
}

function readDeadlines(
  { channel, clock }: DeliveryContext,
  { deadline, expiresAt, hasNoRow, shard }: ReceivedDelivery,
): Deadlines {
  const remainingMs = deadline - channel().now(shard);
  const writeBy = performance.now() + Math.max(0, remainingMs || 0);
  return {
    writeBy,
    // Without Redis's time (NaN) no delivery counts as in time.
    isBeforeDeadline: remainingMs > 0 && clock.now() < expiresAt,
    rowsWrittenBy: hasNoRow ? undefined : writeBy + ROWS_WRITTEN_WITHIN_MS,
  };
}

/** Returns the reason why a push is not written to this connection. The order of the checks matters. */
function findRejection(
  slice: DeliverySlice,
  ref: DeliveryRef,
  connection: Connection,
  inboxReplay: DeliveryContext['inboxReplay'],
): DeliveryResult | undefined {
  const { deadlines } = slice;
  const { push, collapse } = slice.delivery;
  const { rowsWrittenBy } = deadlines;
  if (connection.hasAcknowledged(push)) return 'acknowledged';
  if (connection.hasNewer(collapse, push)) return 'superseded';
  if (connection.state === 'syncing') {
    if (rowsWrittenBy !== undefined)
      connection.expectRow(push, rowsWrittenBy, toHeldPush(slice, ref, connection));
    return 'syncing';
  }
  if (!deadlines.isBeforeDeadline || connection.app.isThrottled) {
    if (rowsWrittenBy !== undefined) connection.recheckInboxAt(rowsWrittenBy);
    return 'not-sent';
  }
  if (connection.isFull()) {
    // Later pushes must not overtake this one, so they go to the inbox too.
    if (rowsWrittenBy !== undefined) inboxReplay.replay(connection, rowsWrittenBy);
    return 'backpressure';
  }
  return undefined;
}

/** Returns a push that may be sent before its row is written; undefined: a newer push may replace it in its row. */
function toHeldPush(
  { delivery, packet, deadlines }: DeliverySlice,
  ref: DeliveryRef,
  connection: Connection,
): HeldPush | undefined {
  const { collapse, expiresAt } = delivery;
  if (collapse !== undefined || !deadlines.isBeforeDeadline || connection.app.isThrottled)
    return undefined;
  return { ref, packet, writeBy: deadlines.writeBy, expiresAt };
}

/** The replies to workers that dispatch. */
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
    /**
     * Reports to the worker that every recipient of a dispatch was written or has a result: it may send more
     * (gateway-windows.ts).
     */
    reportHandled({ positions, reply, shard, work, claim }: ReceivedDelivery): void {
      const [position = 0] = positions;
      if (positions.length > 1) channel().reply({ reply, shard, work, claim, position }, 'handled');
    },
    /** Replies with the PUBACK of `publish`, or `unacked` after a second. */
    awaitAck(connection: Connection, publish: InFlightPublish, pendingReply: PendingReply): void {
      pendingReply.ackDeadline = performance.now() + ACK_TIMEOUT_MS;
      publish.pendingReplies.push(pendingReply);
      awaitingAck.add(connection);
      timer ??= setInterval(checkTimeouts, ACK_CHECK_INTERVAL_MS);
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
