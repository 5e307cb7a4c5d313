import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { failpoint } from '@carillon/core/failpoint';
import { countAttributes, type Tracer } from '@carillon/core/tracing';
import type { GatewayChannel } from '@carillon/presence/gateway-channel';
import type { DispatchedDelivery } from '@carillon/presence/gateway-messages';
import type { DeliveryResult, ReplyTo } from '@carillon/presence/replies';
import { rowId } from '@carillon/store/inbox';
import type { Store } from '@carillon/store/store';
import type { Connection, InFlightPublish, PendingReply, SharedReply } from './connection.ts';
import type { Connections } from './connections.ts';
import type { DeliveryRef } from './delivery-ref.ts';
import { startDispatchSpan } from './dispatch-span.ts';
import type { InboxReplay } from './inbox-replay.ts';
import type { GatewayMetrics } from './metrics.ts';
import { encodePublish, type PublishPacket } from './publish-packet.ts';

/** Number of sockets that are written before PUBACKs are handled again. */
const SOCKETS_PER_SLICE = 200;
/** Time after the deadline of a dispatch within which the worker has written its inbox rows. */
const ROWS_WRITTEN_WITHIN_MS = 2_000;
/** Time from the write to the PUBACK after which a push counts as unacknowledged. */
const ACK_TIMEOUT_MS = 1_000;
const ACK_CHECK_INTERVAL_MS = 50;

/** Times that apply to one slice of a dispatch; read once a slice, which takes milliseconds. */
interface Deadlines {
  /** By MongoDB's clock. */
  nowMs: number;
  isBeforeDeadline: boolean;
  /** Latest time at which the inbox rows of the dispatch are written, monotonic; undefined if no rows are written. */
  rowsWrittenBy: number | undefined;
}

/** The recipients of a dispatch that are written together. */
interface DeliverySlice {
  delivery: DispatchedDelivery;
  packet: PublishPacket;
  deadlines: Deadlines;
  reply: SharedReply;
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
    const { delivery, packet, deadlines, reply } = slice;
    const connection = connections.find(token);
    if (connection === undefined || !connection.isOpen() || connection.isExpired(deadlines.nowMs)) {
      replies.reply(reply, position, 'not-connected');
      return;
    }
    let publish = connection.findInFlight(delivery.push);
    if (publish === undefined) {
      const rejection = findRejection(slice, connection, inboxReplay);
      if (rejection !== undefined) {
        replies.reply(reply, position, rejection);
        return;
      }
      publish = connection.send(packet, toRef(delivery, token, position), delivery.collapse);
      failpoint('publish', token);
      metrics.countPublish('live');
    }
    replies.awaitAck(connection, publish, reply, position);
  }

  return {
    async deliver(delivery: DispatchedDelivery): Promise<void> {
      const { tokens, positions } = delivery;
      const packet = encodePublish(delivery.push, delivery.payload);
      const span = tracer && startDispatchSpan(tracer, delivery);
      const { reply, work, claim } = delivery;
      const to = { reply, work, claim, trace: span?.traceparent };
      pendingWrites += tokens.length;
      for (let from = 0; from < tokens.length; from += SOCKETS_PER_SLICE) {
        if (from > 0) await yieldToEventLoop();
        const deadlines = readDeadlines(context, delivery);
        const sharedReply = createSharedReply(to, deadlines.rowsWrittenBy, span);
        const slice = { delivery, packet, deadlines, reply: sharedReply };
        const end = Math.min(from + SOCKETS_PER_SLICE, tokens.length);
        try {
          for (let n = from; n < end; n += 1) deliverOne(slice, tokens[n] ?? '', positions[n] ?? 0);
        } finally {
          replies.startAckTimeout(sharedReply);
        }
        pendingWrites -= end - from;
      }
      replies.reportHandled(to, positions);
    },
    /** Recipients that were dispatched to this gateway and not handled yet. */
    pendingWrites: (): number => pendingWrites,
  };
}

function readDeadlines(
  { channel, clock }: DeliveryContext,
  { deadline, expiresAt, hasNoRow }: DispatchedDelivery,
): Deadlines {
  const remainingMs = deadline - channel().now();
  const writeBy = performance.now() + Math.max(0, remainingMs || 0);
  const nowMs = clock.now();
  return {
    // Without Redis's time (NaN) no delivery counts as in time.
    nowMs,
    isBeforeDeadline: remainingMs > 0 && nowMs < expiresAt,
    rowsWrittenBy: hasNoRow ? undefined : writeBy + ROWS_WRITTEN_WITHIN_MS,
  };
}

function createSharedReply(
  to: ReplyTo,
  rowsWrittenBy: number | undefined,
  span: SharedReply['span'],
): SharedReply {
  return { to, rowsWrittenBy, span, ackDeadline: 0, connections: [], unreplied: 0 };
}

function toRef(
  { push, work, collapse, notify }: DispatchedDelivery,
  token: string,
  position: number,
): DeliveryRef {
  const row = rowId(collapse === undefined ? { token, push } : { token, push, collapse });
  const ref: DeliveryRef = { push, work, position, rowId: row };
  if (notify !== undefined) ref.notify = notify;
  return ref;
}

/** Returns the reason why a push is not written to this connection. The order of the checks matters. */
function findRejection(
  { delivery, deadlines }: DeliverySlice,
  connection: Connection,
  inboxReplay: DeliveryContext['inboxReplay'],
): DeliveryResult | undefined {
  const { push, collapse } = delivery;
  const { rowsWrittenBy } = deadlines;
  if (connection.hasAcknowledged(push)) return 'acknowledged';
  if (connection.hasNewer(collapse, push)) return 'superseded';
  if (connection.state === 'syncing') {
    if (rowsWrittenBy !== undefined) connection.awaitRow(push, rowsWrittenBy);
    return 'syncing';
  }
  if (!deadlines.isBeforeDeadline || connection.app.isThrottled) {
    if (rowsWrittenBy !== undefined) connection.recheckInboxAt(rowsWrittenBy);
    return 'not-sent';
  }
  if (connection.isFull()) {
    // Later pushes must not overtake this one, so they go to the inbox too.
    if (rowsWrittenBy !== undefined) {
      connection.awaitRow(push, rowsWrittenBy);
      inboxReplay.replay(connection);
    }
    return 'backpressure';
  }
  return undefined;
}

/** The replies to workers that dispatch. */
export type WorkerReplies = ReturnType<typeof createWorkerReplies>;

/**
 * Replies to workers with the result of each delivery: at once, with the PUBACK, or after a second without one.
 *
 * One timeout is for all recipients that were written together, and ends early once all have acknowledged: nearly all do
 * within milliseconds. It holds connections, not pushes, which would live a second and burden the garbage collector.
 *
 * @param channel returns the channel to the workers, which exists once a device can connect
 */
export function createWorkerReplies(
  channel: () => Pick<GatewayChannel, 'reply'>,
  metrics: Pick<GatewayMetrics, 'countReply'>,
) {
  /** In the order of their deadlines. */
  let awaitingAcks: SharedReply[] = [];
  /** Runs while a worker waits for a PUBACK. */
  let timer: NodeJS.Timeout | undefined;

  function reply(shared: SharedReply, position: number, result: DeliveryResult): void {
    shared.span?.record(result);
    metrics.countReply(result);
    channel().reply(shared.to, position, result);
  }

  /** Replies to the worker that waits for the push, unless that was done. */
  function replyOnce(pendingReply: PendingReply, result: DeliveryResult): void {
    if (pendingReply.isReplied) return;
    pendingReply.isReplied = true;
    pendingReply.shared.unreplied -= 1;
    reply(pendingReply.shared, pendingReply.position, result);
  }

  /** Replies for the recipients that have not acknowledged in time. */
  function expireAcks(shared: SharedReply): void {
    for (const connection of shared.connections) {
      for (const publish of connection.inFlight) {
        for (const pendingReply of publish.pendingReplies) {
          if (pendingReply.isReplied || pendingReply.shared !== shared) continue;
          // The worker no longer waits: a late receipt is recorded in MongoDB by the gateway.
          publish.mustRecordReceipt = true;
          if (shared.rowsWrittenBy !== undefined) connection.recheckInboxAt(shared.rowsWrittenBy);
          replyOnce(pendingReply, 'unacked');
        }
      }
    }
  }

  function stop(): void {
    clearInterval(timer);
    timer = undefined;
  }

  function checkTimeouts(): void {
    const now = performance.now();
    awaitingAcks = awaitingAcks.filter((shared) => {
      if (shared.unreplied > 0 && shared.ackDeadline > now) return true;
      if (shared.unreplied > 0) expireAcks(shared);
      // Pushes without a PUBACK stay in flight, and hold it.
      shared.connections = [];
      return false;
    });
    if (awaitingAcks.length === 0) stop();
  }

  return {
    reply,
    /**
     * Reports to the worker that every recipient of a dispatch was written or has a result: it may send more
     * (gateway-room.ts).
     */
    reportHandled(to: ReplyTo, positions: readonly number[]): void {
      if (positions.length > 1) channel().reply(to, positions[0] ?? 0, 'handled');
    },
    /** Replies with the PUBACK of `publish`, or `unacked` once the timeout of `shared` has ended. */
    awaitAck(
      connection: Connection,
      publish: InFlightPublish,
      shared: SharedReply,
      position: number,
    ): void {
      const pendingReply = { shared, position, isReplied: false };
      const { pendingReplies } = publish;
      publish.pendingReplies =
        pendingReplies.length === 0 ? [pendingReply] : pendingReplies.concat(pendingReply);
      shared.connections.push(connection);
      shared.unreplied += 1;
    },
    /** Starts the timeout of a second for PUBACKs, after all recipients were written. */
    startAckTimeout(shared: SharedReply): void {
      if (shared.unreplied === 0) return;
      shared.ackDeadline = performance.now() + ACK_TIMEOUT_MS;
      awaitingAcks.push(shared);
      timer ??= setInterval(checkTimeouts, ACK_CHECK_INTERVAL_MS);
    },
    /** Replies to every worker that still waits for this push, and ends the span of its replay. */
    settle(publish: InFlightPublish, result: 'acknowledged' | 'unacked'): void {
      publish.span?.end(countAttributes('result', { [result]: 1 }));
      for (const pendingReply of publish.pendingReplies) replyOnce(pendingReply, result);
    },
    stop,
  };
}
