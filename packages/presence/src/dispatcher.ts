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
  type DeviceResult,
  type DispatchPlan,
  type DispatchRecipient,
  findReason,
  groupBy,
  groupByGateway,
} from './dispatch-to-many.ts';
import { type Delivery, encodeGatewayMessage } from './gateway-messages.ts';
import { createGatewayWindows } from './gateway-windows.ts';
import { createPendingDispatches, type PendingDispatch } from './pending-dispatches.ts';
import { createPresenceReader, type PresenceReader } from './presence-reader.ts';
import type { DeliveryResult } from './replies.ts';
import {
  createShardDispatcher,
  type DatedReply,
  type ShardDispatcher,
} from './shard-dispatcher.ts';
import type { Shards } from './shards.ts';

export type { Recipient } from './collect-results.ts';
export type { DeviceResult, DispatchRecipient, SendPermission } from './dispatch-to-many.ts';
export type { Delivery } from './gateway-messages.ts';

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
  const dispatch = createDispatchToMany(dispatchers, windows, collectResults);
  const { lookup } = createPresenceReader(shards);

  return {
    /** Name of the stream that replies arrive in. Stored with the claim, so that a successor can read them. */
    replyStream: `${REPLY_STREAM_PREFIX}${worker}`,
    dispatchToDevices: createDispatchToDevices({ dispatcherOf, lookup, dispatch, collectResults }),
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
    async close(): Promise<void> {
      for (const dispatcher of dispatchers) dispatcher.close();
      windows.close();
      pendingDispatches.settleAll();
    },
  };
}

/** Parts of a dispatcher that find the gateways of devices. */
interface Finder {
  dispatcherOf(token: string): ShardDispatcher;
  lookup: PresenceReader['lookup'];
  dispatch: ReturnType<typeof createDispatchToMany>;
  collectResults: CollectResults;
}

/** Creates the dispatch to devices whose gateways are not known yet. */
function createDispatchToDevices({ dispatcherOf, lookup, dispatch, collectResults }: Finder) {
  /** Finds the gateway and dispatches in one round trip, which others of the same moment share. It takes no room in a window. */
  async function dispatchToOne(
    delivery: Delivery,
    recipient: Recipient,
    plan: DispatchPlan,
  ): Promise<ReadonlyMap<number, DeviceResult>> {
    const { token, position } = recipient;
    const permission = await plan.beforeSend([recipient]);
    if (permission === undefined || !permission.includes(position)) return new Map();
    const dispatcher = dispatcherOf(token);
    const send = async (pending: PendingDispatch, messageFor: MessageFor) => {
      const fields = await messageFor(dispatcher, [recipient]);
      const state = await dispatcher.devices.send({ token, fields });
      if (state === 'offline') pending.cancel();
      else if (state !== 'sent') pending.record(position, state);
    };
    const { deadline } = permission;
    const results = await collectResults(delivery, [recipient], { deadline, send });
    const found = new Map([[position, results.get(position) ?? ('offline' as const)]]);
    await plan.onResults?.(found);
    return found;
  }

  async function dispatchToSeveral(
    delivery: Delivery,
    recipients: readonly Recipient[],
    plan: DispatchPlan,
  ): Promise<ReadonlyMap<number, DeviceResult>> {
    const entries = await lookup(recipients.map(({ token }) => token));
    const online: DispatchRecipient[] = [];
    const offline = new Map<number, DeviceResult>();
    const unreachable = new Map<number, DeviceResult>();
    for (const [index, recipient] of recipients.entries()) {
      const presence = entries[index];
      if (presence === 'failing') unreachable.set(recipient.position, 'unreachable');
      else if (presence === undefined || presence === 'away')
        offline.set(recipient.position, 'offline');
      else online.push({ ...recipient, presence });
    }
    // Both are awaited: what `onResults` does must have ended, too.
    const [dispatched] = await Promise.allSettled([
      dispatch(delivery, online, plan),
      offline.size > 0 ? plan.onResults?.(offline) : undefined,
    ]);
    if (dispatched.status === 'rejected') throw dispatched.reason;
    return new Map([...unreachable, ...offline, ...dispatched.value]);
  }

  /**
   * Finds the gateways of these devices and dispatches a delivery to them.
   *
   * @returns a result for every position that was to be sent; `offline` for devices that are not connected
   * @throws as `dispatch` does
   */
  return async function dispatchToDevices(
    delivery: Delivery,
    recipients: readonly Recipient[],
    plan: DispatchPlan,
  ): Promise<ReadonlyMap<number, DeviceResult>> {
    const [only] = recipients;
    const isOne = only !== undefined && recipients.length === 1;
    return isOne && dispatcherOf(only.token).mayFindDevices()
      ? dispatchToOne(delivery, only, plan)
      : dispatchToSeveral(delivery, recipients, plan);
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
