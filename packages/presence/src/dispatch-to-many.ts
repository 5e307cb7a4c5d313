import type { CollectResults, MessageFor, Recipient } from './collect-results.ts';
import type { Delivery } from './gateway-messages.ts';
import type { GatewayWindows, Permit } from './gateway-windows.ts';
import type { PresenceEntry } from './keys.ts';
import type { OnReport, PendingDispatch } from './pending-dispatches.ts';
import type { DeliveryResult } from './replies.ts';
import type { ShardDispatcher } from './shard-dispatcher.ts';

/** A recipient that is connected to a gateway. */
export interface DispatchRecipient extends Recipient {
  presence: PresenceEntry;
}

/** A dispatch to devices: whose it is, and what is decided just before a part of it is sent. */
export interface DispatchPlan {
  app: string;
  /** Parts wait for room at their gateway; otherwise those without room are `not-sent`. */
  mayWait: boolean;
  /**
   * Checks the recipients of a part just before it is sent.
   *
   * @returns undefined: nothing may be sent, and they get no result
   */
  beforeSend(recipients: readonly Recipient[]): Promise<SendPermission | undefined>;
  /**
   * Takes the results of a part as soon as they are there: others may wait for room for long. Of a part that could not be sent
   * there are none. Must not throw.
   */
  onResults?(results: ReadonlyMap<number, DeviceResult>): Promise<void>;
}

/** What may be sent of a part of a dispatch. */
export interface SendPermission {
  /** By the monotonic clock; gateways write nothing to a socket after it. */
  deadline: number;
  /** Checks whether a recipient of the part, by its position, is sent to; others get no result. */
  includes(position: number): boolean;
}

/** Result of a dispatch to a device, which may not be connected. */
export type DeviceResult = DeliveryResult | 'offline';

type Results = ReadonlyMap<number, DeliveryResult>;
const NO_RESULTS: Results = new Map();

/** The recipients of a dispatch at one gateway. */
interface GatewayGroup {
  gateway: string;
  recipients: readonly DispatchRecipient[];
}

/** A group that may be sent to; a dispatch to one device takes no room. */
type PermittedGroup = GatewayGroup & { permit?: Permit };

/** A part of a dispatch that is sent by itself. */
interface DispatchPart {
  recipients: readonly DispatchRecipient[];
  sending: Promise<Results>;
}

/** Creates the dispatch to the gateways of many devices. */
export function createDispatchToMany(
  dispatchers: readonly ShardDispatcher[],
  windows: GatewayWindows,
  collectResults: CollectResults,
) {
  /** Sends to groups that have room at their gateways, and releases the room. */
  async function sendGroups(
    delivery: Delivery,
    groups: readonly PermittedGroup[],
    { beforeSend }: DispatchPlan,
  ): Promise<Results> {
    const permits = new Map(groups.map(({ gateway, permit }) => [gateway, permit]));
    try {
      const checked = groups.flatMap(({ recipients }) => recipients);
      const permission = await beforeSend(checked);
      if (permission === undefined) return NO_RESULTS;
      const { deadline } = permission;
      const recipients = checked.filter(({ position }) => permission.includes(position));
      const sent =
        recipients.length === checked.length
          ? new Map(groups.map((group) => [group.gateway, group.recipients]))
          : groupByGateway(recipients);
      const permitAt = indexPermits(sent, permits);
      const send = async (pending: PendingDispatch, messageFor: MessageFor) => {
        for (const [gateway, permit] of permits) permit?.sent(sent.get(gateway)?.length ?? 0);
        await sendToShards(dispatchers, pending, [...sent.values()], messageFor);
      };
      // A gateway reports the recipients of one message together.
      const onReport: OnReport = (report, position, count) =>
        permitAt[position]?.record(report, count);
      const results = await collectResults(delivery, recipients, { deadline, send, onReport });
      for (const [gateway, group] of sent) {
        const isStalled = group.every(({ position }) => results.get(position) === 'unanswered');
        if (isStalled) permits.get(gateway)?.stalled();
      }
      return results;
    } finally {
      for (const permit of permits.values()) permit?.release();
    }
  }

  /** Sends to the group of a gateway once there is room. */
  async function sendWhenRoom(
    delivery: Delivery,
    { gateway, recipients }: GatewayGroup,
    plan: DispatchPlan,
  ): Promise<Results> {
    const permit = await windows.acquire({ gateway, app: plan.app, size: recipients.length });
    if (permit === 'stalled') return allNotSent(recipients);
    return sendGroups(delivery, [{ gateway, recipients, permit }], plan);
  }

  /**
   * Dispatches a delivery to the gateways of these recipients and waits for the results. What has room at its gateways is sent
   * at once; the rest waits, each gateway by itself (gateway-windows.ts).
   *
   * @returns a result for every position that was to be sent, at the latest 1.5 s after its deadline
   * @throws if Redis fails, on all shards of the recipients, or `beforeSend` does; gateways that received the delivery still
   *   reply to the reply stream
   */
  return async function dispatch(
    delivery: Delivery,
    recipients: readonly DispatchRecipient[],
    plan: DispatchPlan,
  ): Promise<Results> {
    const ready: PermittedGroup[] = [];
    const parts: DispatchPart[] = [];
    for (const [gateway, group] of groupByGateway(recipients)) {
      const hasCredit = group[0]?.presence.credit !== 0;
      if (hasCredit && recipients.length === 1) {
        ready.push({ gateway, recipients: group });
        continue;
      }
      const room = { gateway, app: plan.app, size: group.length };
      const permit = hasCredit ? windows.tryAcquire(room, plan) : 'stalled';
      if (permit === 'stalled' || (permit === undefined && !plan.mayWait))
        parts.push({ recipients: group, sending: Promise.resolve(allNotSent(group)) });
      else if (permit !== undefined) ready.push({ gateway, recipients: group, permit });
      else {
        const sending = sendWhenRoom(delivery, { gateway, recipients: group }, plan);
        parts.push({ recipients: group, sending });
      }
    }
    if (ready.length > 0) {
      const sent = ready.flatMap((group) => group.recipients);
      parts.push({ recipients: sent, sending: sendGroups(delivery, ready, plan) });
    }
    return mergeParts(parts, plan);
  };
}

/** Returns the permit of each recipient's gateway, by position. */
function indexPermits(
  groups: ReadonlyMap<string, readonly DispatchRecipient[]>,
  permits: ReadonlyMap<string, Permit | undefined>,
): (Permit | undefined)[] {
  const permitAt: (Permit | undefined)[] = [];
  for (const [gateway, recipients] of groups) {
    const permit = permits.get(gateway);
    if (permit !== undefined) for (const { position } of recipients) permitAt[position] = permit;
  }
  return permitAt;
}

function allNotSent(recipients: readonly DispatchRecipient[]): Results {
  return new Map(recipients.map(({ position }) => [position, 'not-sent']));
}

/**
 * Waits for all parts, hands on the results of each, and joins them. Throws if all fail; what only some parts miss is
 * `unreachable`, and is not handed on.
 */
async function mergeParts(
  parts: readonly DispatchPart[],
  { onResults }: DispatchPlan,
): Promise<Results> {
  const settled = await Promise.allSettled(
    parts.map(async ({ sending }) => {
      const results = await sending;
      await onResults?.(results);
      return results;
    }),
  );
  if (parts.length > 0 && settled.every(({ status }) => status === 'rejected'))
    throw findReason(settled);
  const [only] = settled;
  if (settled.length === 1 && only?.status === 'fulfilled') return only.value;
  const merged = new Map<number, DeliveryResult>();
  for (const [index, part] of settled.entries()) {
    if (part.status === 'fulfilled')
      part.value.forEach((result, position) => void merged.set(position, result));
    else
      for (const { position } of parts[index]?.recipients ?? [])
        merged.set(position, 'unreachable');
  }
  return merged;
}

/**
 * Sends one message to each gateway, those of a shard in one round trip. Throws if all shards fail.
 *
 * @param groups the recipients of each gateway, which has another identity in each shard
 */
async function sendToShards(
  dispatchers: readonly ShardDispatcher[],
  pending: PendingDispatch,
  groups: readonly (readonly DispatchRecipient[])[],
  messageFor: MessageFor,
): Promise<void> {
  if (groups.length === 0) pending.settle();
  const shards = [...groupBy(groups, ([first]) => first?.presence.shard ?? 0)];
  const sent = await Promise.allSettled(
    shards.map(async ([shard, inShard]) =>
      sendToGateways(dispatchers[shard] as ShardDispatcher, pending, inShard, messageFor),
    ),
  );
  if (sent.length > 0 && sent.every(({ status }) => status === 'rejected')) throw findReason(sent);
  for (const [index, { status }] of sent.entries()) {
    if (status === 'fulfilled') continue;
    const unsent = shards[index]?.[1] ?? [];
    for (const { position } of unsent.flat()) pending.record(position, 'unreachable');
  }
}

/** Sends one message to each gateway of a shard, all in one round trip. */
async function sendToGateways(
  dispatcher: ShardDispatcher,
  pending: PendingDispatch,
  sentGroups: readonly (readonly DispatchRecipient[])[],
  messageFor: MessageFor,
): Promise<void> {
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

/** Groups recipients by their gateway. */
export function groupByGateway<R extends { presence: PresenceEntry }>(
  recipients: readonly R[],
): Map<string, R[]> {
  return groupBy(recipients, ({ presence }) => presence.gateway);
}

/** Groups items by a key. */
export function groupBy<R, K>(items: readonly R[], keyOf: (item: R) => K): Map<K, R[]> {
  const groups = new Map<K, R[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

/** Returns the first reason for which something was rejected. */
export function findReason(results: readonly PromiseSettledResult<unknown>[]): unknown {
  return results.find((result) => result.status === 'rejected')?.reason;
}
