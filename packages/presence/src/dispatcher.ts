import { setTimeout as sleep } from 'node:timers/promises';
import { newClaimId } from '@carillon/core/ids';
import type { Tracer } from '@carillon/core/tracing';
import { createDeviceDispatch } from './device-dispatch.ts';
import { type Delivery, encodeGatewayMessage, type GatewayMessage } from './gateway-messages.ts';
import { gatewayStreamKey, type PresenceEntry, replyStreamKey, TTL_SECONDS } from './keys.ts';
import {
  createPendingDispatches,
  type PendingDispatch,
  type PendingDispatches,
} from './pending-dispatches.ts';
import { BLOCK_MS, connectWithReader, type Redis, type RedisAddress } from './redis.ts';
import { createRedisTime, type RedisTime } from './redis-time.ts';
import { type DeliveryResult, type Reply, readReplyEntry } from './replies.ts';

export type { Delivery } from './gateway-messages.ts';

const MAINTENANCE_INTERVAL_MS = 3_000;
const READ_RETRY_DELAY_MS = 200;
const ENTRIES_PER_READ = 500;

export interface DispatchRecipient {
  token: string;
  /** Position of the recipient in the batch. */
  position: number;
  presence: PresenceEntry;
}

type Addressee = Pick<DispatchRecipient, 'token' | 'position'>;
/** Builds the message to a gateway for a part of the recipients. */
type MessageFor = (group: readonly Addressee[]) => GatewayMessage;

/** Result of a dispatch to one device, which may not be connected. */
export type DeviceResult = DeliveryResult | 'offline' | 'refused';

/** Dispatches deliveries to gateways, on the worker's side. */
export type Dispatcher = Awaited<ReturnType<typeof createDispatcher>>;

/** What a gateway reported to a worker that died. */
export interface EarlierResult {
  result: DeliveryResult;
  /** Milliseconds since the report, by Redis's clock. */
  ageMs: number;
}

/** Creates the dispatcher of a worker. */
export async function createDispatcher(address: RedisAddress, tracer?: Tracer) {
  const { redis, reader } = await connectWithReader(address);
  const replyStream = replyStreamKey(newClaimId());
  const time = createRedisTime(redis);
  const pendingDispatches = createPendingDispatches(tracer);

  const maintain = async (): Promise<void> => {
    await Promise.allSettled([time.sample(), redis.expire(replyStream, TTL_SECONDS.replies)]);
  };
  await maintain();
  const timer = setInterval(() => void maintain(), MAINTENANCE_INTERVAL_MS);
  const stopFollowing = followReplies(reader, replyStream, pendingDispatches.record);

  return {
    /** Key of the stream that replies arrive in. Stored with the claim, so that a successor can read them. */
    replyStream,
    ...createDispatches({ redis, replyStream, time, pendingDispatches }),
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
      pendingDispatches.settleAll();
      reader.disconnect();
      redis.disconnect();
    },
  };
}

/** Creates the dispatches to the gateways of many devices, and to that of one. */
function createDispatches({
  redis,
  replyStream,
  time,
  pendingDispatches,
}: {
  redis: Redis;
  replyStream: string;
  time: RedisTime;
  pendingDispatches: PendingDispatches;
}) {
  const deviceDispatch = createDeviceDispatch(redis);

  /** Sends messages with `send`, and waits for the results. */
  async function collectResults(
    delivery: Delivery,
    recipients: readonly Addressee[],
    deadline: number,
    send: (pending: PendingDispatch, messageFor: MessageFor) => Promise<void>,
  ): Promise<Map<number, DeliveryResult>> {
    if (Number.isNaN(time.now())) await time.sample();
    const positions = recipients.map(({ position }) => position);
    const pending = pendingDispatches.add(delivery, positions, deadline);
    try {
      await send(pending, (group) => ({
        kind: 'deliver',
        delivery: {
          ...delivery,
          ...(pending.trace !== undefined && { trace: pending.trace }),
          reply: replyStream,
          deadline: time.fromMonotonic(deadline),
          tokens: group.map(({ token }) => token),
          positions: group.map(({ position }) => position),
        },
      }));
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
     * @throws if Redis fails; gateways that received the delivery still reply to the reply stream
     */
    dispatch: (
      delivery: Delivery,
      recipients: readonly DispatchRecipient[],
      deadline: number,
    ): Promise<Map<number, DeliveryResult>> =>
      collectResults(delivery, recipients, deadline, (pending, messageFor) =>
        sendToGateways(redis, pending, recipients, messageFor),
      ),
    /** Checks whether `dispatchToDevice` is supported: not with several servers of Redis, or one that refuses its script. */
    isDeviceDispatchSupported: deviceDispatch.isSupported,
    /**
     * Looks up the gateway of a device and dispatches a delivery to it. Takes one round trip, which dispatches of the same
     * moment share.
     *
     * @param deadline as for `dispatch`
     * @returns the result. `refused`: it is not supported after all, and nothing was dispatched
     * @throws as `dispatch` does
     */
    async dispatchToDevice(
      delivery: Delivery,
      recipient: Addressee,
      deadline: number,
    ): Promise<DeviceResult> {
      const { token, position } = recipient;
      let unsent: 'offline' | 'refused' = 'offline';
      const send = async (pending: PendingDispatch, messageFor: MessageFor) => {
        const fields = encodeGatewayMessage(messageFor([recipient]));
        const state = await deviceDispatch.send({ token, fields });
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

/** Sends one XADD for each gateway, all in one round trip. */
async function sendToGateways(
  redis: Redis,
  pending: PendingDispatch,
  recipients: readonly DispatchRecipient[],
  messageFor: MessageFor,
): Promise<void> {
  const sentGroups: (readonly DispatchRecipient[])[] = [];
  const pipeline = redis.pipeline();
  for (const [gateway, group] of groupByGateway(recipients)) {
    if (group[0]?.presence.credit === 0) {
      for (const { position } of group) pending.record(position, 'not-sent');
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
      for (const { position } of sentGroups[index] ?? []) pending.record(position, 'not-connected');
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
