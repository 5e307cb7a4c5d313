import { newClaimId } from '@carillon/core/ids';
import type { Tracer } from '@carillon/core/tracing';
import { type Delivery, encodeGatewayMessage } from './gateway-messages.ts';
import type { PresenceEntry } from './keys.ts';
import {
  createPendingDispatches,
  type PendingDispatch,
  type PendingDispatches,
} from './pending-dispatches.ts';
import type { DeliveryResult } from './replies.ts';
import {
  createShardDispatcher,
  type DatedReply,
  type ShardDispatcher,
} from './shard-dispatcher.ts';
import type { Shards } from './shards.ts';

export type { Delivery } from './gateway-messages.ts';

export interface DispatchRecipient {
  token: string;
  /** Position of the recipient in the batch. */
  position: number;
  presence: PresenceEntry;
}

type RecipientRef = Pick<DispatchRecipient, 'token' | 'position'>;
/** Encodes the message to a gateway for recipients of one shard. */
type MessageFor = (shard: ShardDispatcher, group: readonly RecipientRef[]) => Promise<string[]>;

/** Result of a dispatch to one device, which may not be connected. */
export type DeviceResult = DeliveryResult | 'offline' | 'refused';

/** Dispatches deliveries to gateways, on the worker's side. */
export type Dispatcher = Awaited<ReturnType<typeof createDispatcher>>;

/** Result that a gateway reported to a worker that died. */
export interface EarlierResult {
  result: DeliveryResult;
  /** Milliseconds since the report, by Redis's clock. */
  ageMs: number;
}

/** Name of a worker's reply stream: its key on a server. In a cluster each shard has a key of its own for it. */
const REPLY_STREAM_PREFIX = 'r:';

/** Creates the dispatcher of a worker. */
export async function createDispatcher(shards: Pick<Shards, 'all' | 'of'>, tracer?: Tracer) {
  const worker = newClaimId();
  const pendingDispatches = createPendingDispatches(tracer);
  const dispatchers = await Promise.all(
    shards.all.map((shard) => createShardDispatcher(shard, worker, pendingDispatches.record)),
  );
  const dispatcherOf = (token: string) => dispatchers[shards.of(token).index] as ShardDispatcher;

  return {
    /** Name of the stream that replies arrive in. Stored with the claim, so that a successor can read them. */
    replyStream: `${REPLY_STREAM_PREFIX}${worker}`,
    ...createDispatches(dispatchers, dispatcherOf, pendingDispatches),
    /** Makes gateways read these devices' inboxes, after the rows of a push were written. Throws if Redis fails. */
    async notifyInboxes(
      push: string,
      recipients: readonly Pick<DispatchRecipient, 'token' | 'presence'>[],
    ): Promise<void> {
      const groups = groupBy(recipients, ({ presence }) => presence.shard);
      const notices = [...groups].map(([shard, inShard]) => {
        const messages = [...groupByGateway(inShard)].map(([gateway, group]) => {
          const tokens = group.map(({ token }) => token);
          return { gateway, fields: encodeGatewayMessage({ kind: 'drain', tokens, push }) };
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
      pendingDispatches.settleAll();
    },
  };
}

/** Creates the dispatches to the gateways of many devices, and to that of one. */
function createDispatches(
  dispatchers: readonly ShardDispatcher[],
  dispatcherOf: (token: string) => ShardDispatcher,
  pendingDispatches: PendingDispatches,
) {
  /** Sends messages with `send`, and waits for the results. */
  async function collectResults(
    delivery: Delivery,
    recipients: readonly RecipientRef[],
    deadline: number,
    send: (pending: PendingDispatch, messageFor: MessageFor) => Promise<void>,
  ): Promise<Map<number, DeliveryResult>> {
    const positions = recipients.map(({ position }) => position);
    const pending = pendingDispatches.add(delivery, positions, deadline);
    const messageFor: MessageFor = async (shard, group) =>
      encodeGatewayMessage({
        kind: 'deliver',
        delivery: {
          ...delivery,
          ...(pending.trace !== undefined && { trace: pending.trace }),
          reply: shard.replyStream,
          deadline: await shard.toRedisTime(deadline),
          tokens: group.map(({ token }) => token),
          positions: group.map(({ position }) => position),
        },
      });
    try {
      await send(pending, messageFor);
      return await pending.whenSettled;
    } finally {
      pending.settle();
    }
  }

  return {
    /**
     * Dispatches a delivery to the gateways of these recipients and waits for the results.
     *
     * @param deadline by the monotonic clock; gateways write nothing to a socket after it
     * @returns a result for every position, at the latest 1.5 s after the deadline
     * @throws if Redis fails, on all shards of the recipients; gateways that received the delivery still reply to the reply
     *   stream
     */
    dispatch: (
      delivery: Delivery,
      recipients: readonly DispatchRecipient[],
      deadline: number,
    ): Promise<Map<number, DeliveryResult>> =>
      collectResults(delivery, recipients, deadline, (pending, messageFor) =>
        sendToShards(dispatchers, pending, recipients, messageFor),
      ),
    /** Checks whether `dispatchToDevice` is supported: not in a cluster, nor where Redis refuses its script or fails. */
    isDeviceDispatchSupported(token: string): boolean {
      const { devices, isResponding } = dispatcherOf(token);
      return devices.isSupported() && isResponding();
    },
    /**
     * Finds the gateway of a device and dispatches a delivery to it. Takes one round trip, which dispatches of the same
     * moment share.
     *
     * @param deadline as for `dispatch`
     * @returns the result. `refused`: it is not supported after all, and nothing was dispatched
     * @throws as `dispatch` does
     */
    async dispatchToDevice(
      delivery: Delivery,
      recipient: RecipientRef,
      deadline: number,
    ): Promise<DeviceResult> {
      const { token, position } = recipient;
      const dispatcher = dispatcherOf(token);
      let unsent: 'offline' | 'refused' = 'offline';
      const send = async (pending: PendingDispatch, messageFor: MessageFor) => {
        const fields = await messageFor(dispatcher, [recipient]);
        const state = await dispatcher.devices.send({ token, fields });
        if (state === 'sent') return;
        if (state === 'not-sent' || state === 'not-connected') pending.record(position, state);
        else {
          unsent = state;
          pending.cancel();
        }
      };
      const results = await collectResults(delivery, [recipient], deadline, send);
      return results.get(position) ?? unsent;
    },
  };
}

/** Sends one message to each gateway, those of a shard in one round trip. Throws if all shards fail. */
async function sendToShards(
  dispatchers: readonly ShardDispatcher[],
  pending: PendingDispatch,
  recipients: readonly DispatchRecipient[],
  messageFor: MessageFor,
): Promise<void> {
  if (recipients.length === 0) pending.settle();
  const groups = [...groupBy(recipients, ({ presence }) => presence.shard)];
  const sent = await Promise.allSettled(
    groups.map(async ([shard, group]) =>
      sendToGateways(dispatchers[shard] as ShardDispatcher, pending, group, messageFor),
    ),
  );
  if (sent.length > 0 && sent.every(({ status }) => status === 'rejected')) throw findReason(sent);
  for (const [index, { status }] of sent.entries()) {
    if (status === 'fulfilled') continue;
    for (const { position } of groups[index]?.[1] ?? []) pending.record(position, 'unreachable');
  }
}

/** Sends one message to each gateway of a shard, all in one round trip. */
async function sendToGateways(
  dispatcher: ShardDispatcher,
  pending: PendingDispatch,
  recipients: readonly DispatchRecipient[],
  messageFor: MessageFor,
): Promise<void> {
  const sentGroups: (readonly DispatchRecipient[])[] = [];
  for (const group of groupByGateway(recipients).values()) {
    if (group[0]?.presence.credit !== 0) sentGroups.push(group);
    else for (const { position } of group) pending.record(position, 'not-sent');
  }
  if (sentGroups.length === 0) return;
  const messages = sentGroups.map(async (group) => ({
    gateway: group[0]?.presence.gateway ?? '',
    fields: await messageFor(dispatcher, group),
  }));
  const ids = await dispatcher.send(await Promise.all(messages));
  for (const [index, id] of ids.entries()) {
    // Without a stream the gateway stopped or acquired a new identity.
    if (id === null)
      for (const { position } of sentGroups[index] ?? []) pending.record(position, 'not-connected');
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
