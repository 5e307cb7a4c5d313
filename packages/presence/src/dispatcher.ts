import { createBatcher } from '@carillon/core/batcher';
import { newClaimId } from '@carillon/core/ids';
import type { Tracer } from '@carillon/core/tracing';
import {
  type CollectResults,
  createCollectResults,
  type MessageFor,
  type Recipient,
} from './collect-results.ts';
import {
  createDispatchToMany,
  type DispatchRecipient,
  findReason,
  groupBy,
  groupByGateway,
} from './dispatch-to-many.ts';
import { type Delivery, encodeGatewayMessage } from './gateway-messages.ts';
import { createGatewayWindows } from './gateway-windows.ts';
import { createPendingDispatches, type PendingDispatch } from './pending-dispatches.ts';
import type { DeliveryResult } from './replies.ts';
import {
  createShardDispatcher,
  type DatedReply,
  type ShardDispatcher,
} from './shard-dispatcher.ts';
import type { Shards } from './shards.ts';

export type { DispatchPlan, DispatchRecipient, SendableRecipients } from './dispatch-to-many.ts';
export type { Delivery } from './gateway-messages.ts';

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
  const collectResults = createCollectResults(pendingDispatches);
  const windows = createGatewayWindows(shards.all.length);
  const dispatchers = await Promise.all(
    shards.all.map((shard) => createShardDispatcher(shard, worker, pendingDispatches.record)),
  );
  /** Reads from all shards but those that fail. Throws if all of them do. */
  async function readAll(
    read: (one: ShardDispatcher) => Promise<DatedReply[]>,
  ): Promise<DatedReply[]> {
    const reads = await Promise.allSettled(dispatchers.map(read));
    const succeeded = reads.filter((result) => result.status === 'fulfilled');
    if (succeeded.length === 0) throw findReason(reads);
    return succeeded.flatMap(({ value }) => value);
  }
  const dispatcherOf = (token: string) => dispatchers[shards.of(token).index] as ShardDispatcher;

  return {
    /** Name of the stream that replies arrive in. Stored with the claim, so that a successor can read them. */
    replyStream: `${REPLY_STREAM_PREFIX}${worker}`,
    dispatch: createDispatchToMany(dispatchers, windows, collectResults),
    ...createDispatchToDevice(dispatcherOf, collectResults),
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
      return mergeReplies(await readAll((one) => one.readReplies(formerWorker)), claim);
    },
    /**
     * The same of a claim whose worker is not known. Reads what all workers have got in the last minute; calls at the same
     * time share that.
     */
    findReplies: createBatcher<string, Map<number, EarlierResult>>(
      'find-replies',
      async (claims) => {
        const wanted = new Set(claims);
        const replies = await readAll((one) => one.findReplies(wanted));
        return claims.map((claim) => mergeReplies(replies, claim));
      },
    ),
    async close(): Promise<void> {
      for (const dispatcher of dispatchers) dispatcher.close();
      windows.close();
      pendingDispatches.settleAll();
    },
  };
}

/** Creates the dispatch to the gateway of one device, which takes no room in a window. */
function createDispatchToDevice(
  dispatcherOf: (token: string) => ShardDispatcher,
  collectResults: CollectResults,
) {
  return {
    /** Checks whether `dispatchToDevice` is supported: not in a cluster, nor where Redis refuses its script or fails. */
    isDeviceDispatchSupported(token: string): boolean {
      const { devices, isResponding } = dispatcherOf(token);
      return devices.isSupported() && isResponding();
    },
    /**
     * Finds the gateway of a device and dispatches a delivery to it. Takes one round trip, which dispatches of the same
     * moment share.
     *
     * @param deadline by the monotonic clock; the gateway writes nothing to a socket after it
     * @returns the result. `refused`: it is not supported after all, and nothing was dispatched
     * @throws as `dispatch` does
     */
    async dispatchToDevice(
      delivery: Delivery,
      recipient: Recipient,
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
      const results = await collectResults(delivery, [recipient], { deadline, send });
      return results.get(position) ?? unsent;
    },
  };
}

/**
 * Returns the results of one claim. `acknowledged` takes precedence over other results, and the first of several.
 */
function mergeReplies(replies: readonly DatedReply[], claim: string): Map<number, EarlierResult> {
  const results = new Map<number, EarlierResult>();
  for (const { reply, ageMs } of replies) {
    const { result } = reply;
    if (reply.claim !== claim || result === 'handled') continue;
    for (const position of reply.positions) {
      if (results.get(position)?.result !== 'acknowledged')
        results.set(position, { result, ageMs });
    }
  }
  return results;
}
