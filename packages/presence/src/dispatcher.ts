import { newClaimId } from '@carillon/core/ids';
import { countAttributes, type Span, type Tracer } from '@carillon/core/tracing';
import { type Delivery, encodeGatewayMessage } from './gateway-messages.ts';
import type { PresenceEntry } from './keys.ts';
import type { DeliveryResult, Reply } from './replies.ts';
import {
  createShardDispatcher,
  type DatedReply,
  type ShardDispatcher,
} from './shard-dispatcher.ts';
import type { Shards } from './shards.ts';

export type { Delivery } from './gateway-messages.ts';

/** Time after the deadline by which replies arrive: 1 s for the device's PUBACK, 0.5 s for the transport. */
const REPLY_GRACE_MS = 1_500;

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

/** Name of a worker's reply stream: its key on a server. In a cluster each shard has a key of its own for it. */
const REPLY_STREAM_PREFIX = 'r:';

/** Creates the dispatcher of a worker. */
export async function createDispatcher(shards: Pick<Shards, 'all'>, tracer?: Tracer) {
  const worker = newClaimId();
  const pendingDispatches = new Set<PendingDispatch>();
  const dispatchers = await Promise.all(
    shards.all.map((shard) =>
      createShardDispatcher(shard, worker, (reply) => recordReply(pendingDispatches, reply)),
    ),
  );

  return {
    /** Name of the stream that replies arrive in. Stored with the claim, so that a successor can read them. */
    replyStream: `${REPLY_STREAM_PREFIX}${worker}`,
    /**
     * Dispatches a delivery to the gateways of these recipients and waits for the results.
     *
     * @param deadline by the monotonic clock; gateways write nothing to a socket after it
     * @returns a result for every position, at the latest 1.5 s after the deadline
     * @throws if Redis fails, on all shards of the recipients; gateways that received the delivery still reply to the reply
     *   stream
     */
    async dispatch(
      delivery: Delivery,
      recipients: readonly DispatchRecipient[],
      deadline: number,
    ): Promise<Map<number, DeliveryResult>> {
      const timeoutAt = deadline + REPLY_GRACE_MS;
      const span = startSpan(tracer, delivery, recipients.length);
      const claim = { claim: delivery.claim, span };
      const { whenSettled, pending } = addPending(claim, recipients, pendingDispatches, timeoutAt);
      const traced = { ...delivery, ...(span !== undefined && { trace: span.traceparent }) };
      try {
        await sendToShards(dispatchers, pending, recipients, traced, deadline);
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
      const groups = groupBy(recipients, ({ presence }) => presence.shard);
      const notices = [...groups].map(([shard, inShard]) => {
        const messages = [...groupByGateway(inShard)].map(([gateway, group]) => {
          const tokens = group.map(({ token }) => token);
          return { gateway, fields: encodeGatewayMessage({ kind: 'drain', tokens }) };
        });
        // A missing stream is no error: its gateway stopped, or acquires a new identity and then reads all inboxes.
        return dispatchers[shard]?.send(messages);
      });
      await Promise.all(notices);
    },
    /**
     * Returns the results of a claim whose worker died, by position; those of a shard that fails are missing.
     *
     * @throws if Redis fails, on all shards
     */
    async readReplies(stream: string, claim: string): Promise<Map<number, EarlierResult>> {
      const formerWorker = stream.slice(REPLY_STREAM_PREFIX.length);
      const reads = await Promise.allSettled(
        dispatchers.map((dispatcher) => dispatcher.readReplies(formerWorker)),
      );
      const read = reads.filter((result) => result.status === 'fulfilled');
      if (read.length === 0) throw findReason(reads);
      return mergeReplies(
        read.flatMap(({ value }) => value),
        claim,
      );
    },
    async close(): Promise<void> {
      for (const dispatcher of dispatchers) dispatcher.close();
      for (const pending of pendingDispatches) pending.settle();
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

/** Sends one message to each gateway, those of a shard in one round trip. Throws if all shards fail. */
async function sendToShards(
  dispatchers: readonly ShardDispatcher[],
  pending: PendingDispatch,
  recipients: readonly DispatchRecipient[],
  delivery: Delivery,
  deadline: number,
): Promise<void> {
  if (recipients.length === 0) pending.settle();
  const groups = [...groupBy(recipients, ({ presence }) => presence.shard)];
  const sent = await Promise.allSettled(
    groups.map(async ([shard, group]) =>
      sendToGateways(dispatchers[shard] as ShardDispatcher, pending, group, { delivery, deadline }),
    ),
  );
  if (sent.length > 0 && sent.every(({ status }) => status === 'rejected')) throw findReason(sent);
  for (const [index, { status }] of sent.entries()) {
    if (status === 'fulfilled') continue;
    for (const { position } of groups[index]?.[1] ?? [])
      recordResult(pending, position, 'unreachable');
  }
}

/** Sends one message to each gateway of a shard, all in one round trip. */
async function sendToGateways(
  dispatcher: ShardDispatcher,
  pending: PendingDispatch,
  recipients: readonly DispatchRecipient[],
  { delivery, deadline }: { delivery: Delivery; deadline: number },
): Promise<void> {
  const sentGroups: (readonly DispatchRecipient[])[] = [];
  for (const group of groupByGateway(recipients).values()) {
    if (group[0]?.presence.credit !== 0) sentGroups.push(group);
    else for (const { position } of group) recordResult(pending, position, 'not-sent');
  }
  if (sentGroups.length === 0) return;
  const reply = dispatcher.replyStream;
  const redisDeadline = await dispatcher.toRedisTime(deadline);
  const ids = await dispatcher.send(
    sentGroups.map((group) => ({
      gateway: group[0]?.presence.gateway ?? '',
      fields: encodeGatewayMessage({
        kind: 'deliver',
        delivery: {
          ...delivery,
          reply,
          deadline: redisDeadline,
          tokens: group.map(({ token }) => token),
          positions: group.map(({ position }) => position),
        },
      }),
    })),
  );
  for (const [index, id] of ids.entries()) {
    // Without a stream the gateway stopped or acquired a new identity.
    if (id === null)
      for (const { position } of sentGroups[index] ?? [])
        recordResult(pending, position, 'not-connected');
  }
}

function groupByGateway<R extends { presence: PresenceEntry }>(
  recipients: readonly R[],
): Map<string, R[]> {
  return groupBy(recipients, ({ presence }) => presence.gateway);
}

function groupBy<R, K>(items: readonly R[], keyOf: (item: R) => K): Map<K, R[]> {
  const groups = new Map<K, R[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

/**
 * Returns the results of one claim. `acknowledged` takes precedence over other results, and the first of several.
 */
function mergeReplies(replies: readonly DatedReply[], claim: string): Map<number, EarlierResult> {
  const results = new Map<number, EarlierResult>();
  for (const { reply, ageMs } of replies) {
    if (reply.claim !== claim) continue;
    for (const position of reply.positions) {
      if (results.get(position)?.result !== 'acknowledged')
        results.set(position, { result: reply.result, ageMs });
    }
  }
  return results;
}

function findReason(results: readonly PromiseSettledResult<unknown>[]): unknown {
  return results.find((result) => result.status === 'rejected')?.reason;
}
