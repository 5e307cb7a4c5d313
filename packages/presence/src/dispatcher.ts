import { setTimeout as sleep } from 'node:timers/promises';
import { newClaimId } from '@carillon/core/ids';
import { countAttributes, type Span, type Tracer } from '@carillon/core/tracing';
import { type Delivery, encodeGatewayMessage } from './gateway-messages.ts';
import { gatewayStreamKey, type PresenceEntry, replyStreamKey, TTL_SECONDS } from './keys.ts';
import { BLOCK_MS, connectWithReader, type Redis, type RedisAddress } from './redis.ts';
import { createRedisTime } from './redis-time.ts';
import { type DeliveryResult, type Reply, readReplyEntry } from './replies.ts';

export type { Delivery } from './gateway-messages.ts';

/** Time after the deadline by which replies arrive: 1 s for the device's PUBACK, 0.5 s for the transport. */
const REPLY_GRACE_MS = 1_500;
const MAINTENANCE_INTERVAL_MS = 3_000;
const READ_RETRY_DELAY_MS = 200;
const ENTRIES_PER_READ = 500;

export interface DispatchRecipient {
  token: string;
  /** Position of the recipient in the batch. */
  position: number;
  presence: PresenceEntry;
}

/** Dispatches deliveries to gateways, on the worker's side. */
export type Dispatcher = Awaited<ReturnType<typeof createDispatcher>>;

/** What a gateway reported to a worker that died. */
export interface EarlierResult {
  result: DeliveryResult;
  /** Milliseconds since the report, by Redis's clock. */
  ageMs: number;
}

interface PendingDispatch {
  claim: string;
  /** Positions without a result. */
  unanswered: Set<number>;
  results: Map<number, DeliveryResult>;
  settle: () => void;
  span: Span | undefined;
}

/** Creates the dispatcher of a worker. */
export async function createDispatcher(address: RedisAddress, tracer?: Tracer) {
  const { redis, reader } = await connectWithReader(address);
  const replyStream = replyStreamKey(newClaimId());
  const time = createRedisTime(redis);
  const pendingDispatches = new Set<PendingDispatch>();

  const maintain = async (): Promise<void> => {
    await Promise.allSettled([time.sample(), redis.expire(replyStream, TTL_SECONDS.replies)]);
  };
  await maintain();
  const timer = setInterval(() => void maintain(), MAINTENANCE_INTERVAL_MS);
  const stopFollowing = followReplies(reader, replyStream, (reply) =>
    recordReply(pendingDispatches, reply),
  );

  return {
    /** Key of the stream that replies arrive in. Stored with the claim, so that a successor can read them. */
    replyStream,
    /**
     * Dispatches a delivery to the gateways of these recipients and waits for the results.
     *
     * @param deadline by the monotonic clock; gateways write nothing to a socket after it
     * @returns a result for every position, at the latest 1.5 s after the deadline
     * @throws if Redis fails; gateways that received the delivery still reply to the reply stream
     */
    async dispatch(
      delivery: Delivery,
      recipients: readonly DispatchRecipient[],
      deadline: number,
    ): Promise<Map<number, DeliveryResult>> {
      if (Number.isNaN(time.now())) await time.sample();
      const timeoutAt = deadline + REPLY_GRACE_MS;
      const span = startSpan(tracer, delivery, recipients.length);
      const claim = { claim: delivery.claim, span };
      const { whenSettled, pending } = addPending(claim, recipients, pendingDispatches, timeoutAt);
      try {
        await sendToGateways(redis, pending, recipients, (group) => ({
          kind: 'deliver',
          delivery: {
            ...delivery,
            ...(span !== undefined && { trace: span.traceparent }),
            reply: replyStream,
            deadline: time.fromMonotonic(deadline),
            tokens: group.map(({ token }) => token),
            positions: group.map(({ position }) => position),
          },
        }));
        return await whenSettled;
      } finally {
        pending.settle();
        span?.end(countResults(pending.results));
      }
    },
    /** Makes gateways read these devices' inboxes, after a row was written. Throws if Redis fails. */
    async notifyInboxes(
      recipients: readonly Pick<DispatchRecipient, 'token' | 'presence'>[],
    ): Promise<void> {
      const pipeline = redis.pipeline();
      for (const [gateway, group] of groupByGateway(recipients)) {
        const tokens = group.map(({ token }) => token);
        pipeline.xadd(
          gatewayStreamKey(gateway),
          'NOMKSTREAM',
          '*',
          ...encodeGatewayMessage({ kind: 'drain', tokens }),
        );
      }
      // A missing stream is no error: its gateway stopped, or acquires a new identity and then reads all inboxes.
      for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error;
    },
    /** Returns the results of a claim whose worker died, by position. Throws if Redis fails. */
    readReplies: (stream: string, claim: string): Promise<Map<number, EarlierResult>> =>
      readAllReplies(redis, stream, claim, time.now()),
    async close(): Promise<void> {
      clearInterval(timer);
      stopFollowing();
      for (const pending of pendingDispatches) pending.settle();
      reader.disconnect();
      redis.disconnect();
    },
  };
}

function startSpan(
  tracer: Tracer | undefined,
  { trace, push }: Delivery,
  recipients: number,
): Span | undefined {
  if (tracer === undefined || trace === undefined) return undefined;
  const attributes = { 'carillon.push.id': push, 'carillon.recipients': recipients };
  return tracer.continueTrace('dispatch', trace, performance.now(), attributes);
}

/** Counts the results of a dispatch. */
function countResults(results: ReadonlyMap<number, DeliveryResult>) {
  const counts: Partial<Record<DeliveryResult, number>> = {};
  for (const result of results.values()) counts[result] = (counts[result] ?? 0) + 1;
  return countAttributes('result', counts);
}

/** Adds a pending dispatch before anything is sent, because the first reply may arrive before XADD returns. */
function addPending(
  { claim, span }: Pick<PendingDispatch, 'claim' | 'span'>,
  recipients: readonly DispatchRecipient[],
  pendingDispatches: Set<PendingDispatch>,
  timeoutAt: number,
): { pending: PendingDispatch; whenSettled: Promise<Map<number, DeliveryResult>> } {
  const { promise, resolve } = Promise.withResolvers<Map<number, DeliveryResult>>();
  const pending: PendingDispatch = {
    claim,
    span,
    unanswered: new Set(recipients.map(({ position }) => position)),
    results: new Map(),
    settle() {
      clearTimeout(timer);
      pendingDispatches.delete(pending);
      for (const position of pending.unanswered) pending.results.set(position, 'unanswered');
      resolve(pending.results);
    },
  };
  // Not `withTimeout`: the deadline holds while the streams are written, too.
  const timer = setTimeout(pending.settle, Math.max(0, timeoutAt - performance.now()));
  pendingDispatches.add(pending);
  return { pending, whenSettled: promise };
}

function recordReply(
  pendingDispatches: Iterable<PendingDispatch>,
  { claim, result, positions, trace }: Reply,
): void {
  for (const pending of pendingDispatches) {
    if (pending.claim !== claim) continue;
    if (trace !== undefined) pending.span?.link(trace);
    for (const position of positions) recordResult(pending, position, result);
  }
}

function recordResult(pending: PendingDispatch, position: number, result: DeliveryResult): void {
  if (!pending.unanswered.delete(position)) return;
  pending.results.set(position, result);
  if (pending.unanswered.size === 0) pending.settle();
}

/** Sends one XADD for each gateway, all in one round trip. */
async function sendToGateways(
  redis: Redis,
  pending: PendingDispatch,
  recipients: readonly DispatchRecipient[],
  messageFor: (group: readonly DispatchRecipient[]) => Parameters<typeof encodeGatewayMessage>[0],
): Promise<void> {
  const sentGroups: (readonly DispatchRecipient[])[] = [];
  const pipeline = redis.pipeline();
  for (const [gateway, group] of groupByGateway(recipients)) {
    if (group[0]?.presence.credit === 0) {
      for (const { position } of group) recordResult(pending, position, 'not-sent');
      continue;
    }
    sentGroups.push(group);
    pipeline.xadd(
      gatewayStreamKey(gateway),
      'NOMKSTREAM',
      '*',
      ...encodeGatewayMessage(messageFor(group)),
    );
  }
  if (recipients.length === 0) pending.settle();
  if (sentGroups.length === 0) return;
  for (const [index, [error, id]] of ((await pipeline.exec()) ?? []).entries()) {
    if (error) throw error;
    // Without a stream the gateway stopped or acquired a new identity.
    if (id === null)
      for (const { position } of sentGroups[index] ?? [])
        recordResult(pending, position, 'not-connected');
  }
}

function groupByGateway<R extends { presence: PresenceEntry }>(
  recipients: readonly R[],
): Map<string, R[]> {
  const groups = new Map<string, R[]>();
  for (const recipient of recipients) {
    const group = groups.get(recipient.presence.gateway);
    if (group === undefined) groups.set(recipient.presence.gateway, [recipient]);
    else group.push(recipient);
  }
  return groups;
}

/** Reads a worker's reply stream from its beginning until it is stopped. A failure of Redis only delays it. */
function followReplies(reader: Redis, stream: string, onReply: (reply: Reply) => void): () => void {
  let stopped = false;
  let lastId = '0-0';

  async function follow(): Promise<void> {
    while (!stopped) {
      try {
        const streams = await reader.xread(
          'COUNT',
          ENTRIES_PER_READ,
          'BLOCK',
          BLOCK_MS,
          'STREAMS',
          stream,
          lastId,
        );
        for (const [id, fields] of streams?.[0]?.[1] ?? []) {
          lastId = id;
          for (const reply of readReplyEntry(fields)) onReply(reply);
        }
      } catch {
        if (!stopped) await sleep(READ_RETRY_DELAY_MS);
      }
    }
  }

  void follow();
  return () => {
    stopped = true;
  };
}

/**
 * Returns all results of one claim that a stream still holds. `acknowledged` takes precedence over other results, and the
 * first of several.
 *
 * @param now by Redis's clock; NaN while it is unknown, and then the results are as of now
 */
async function readAllReplies(
  redis: Redis,
  stream: string,
  claim: string,
  now: number,
): Promise<Map<number, EarlierResult>> {
  const results = new Map<number, EarlierResult>();
  for (const [id, fields] of await redis.xrange(stream, '-', '+')) {
    const ageMs = Math.max(0, now - Number.parseInt(id, 10)) || 0;
    for (const reply of readReplyEntry(fields)) {
      if (reply.claim !== claim) continue;
      for (const position of reply.positions) {
        if (results.get(position)?.result !== 'acknowledged')
          results.set(position, { result: reply.result, ageMs });
      }
    }
  }
  return results;
}
