import type { CollectResults, MessageFor, Recipient } from './collect-results.ts';
import type { Delivery } from './gateway-messages.ts';
import type { GatewayRoom, Release } from './gateway-room.ts';
import type { PresenceEntry } from './keys.ts';
import type { OnReply, PendingDispatch } from './pending-dispatches.ts';
import type { DeliveryResult } from './replies.ts';
import type { WorkerStream } from './worker-stream.ts';

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
   * @returns undefined if nothing may be sent; the recipients then get no result
   */
  beforeSend(recipients: readonly Recipient[]): Promise<SendPermission | undefined>;
  /**
   * Takes the results of a part as soon as they are there: others may wait for room for long. Those of recipients that get
   * their push from the inbox come before: they wait for no other device. Of a part that could not be sent there are none. Must
   * not throw.
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

/** The results of a part, and the positions of those that were handed on before. */
interface PartResults {
  results: Results;
  handedOn: ReadonlySet<number>;
}

const NO_POSITIONS: ReadonlySet<number> = new Set();
const NO_RESULTS: PartResults = { results: new Map(), handedOn: NO_POSITIONS };
/** Results of recipients whose gateway waits for their inbox row. */
const ROW_AWAITED: ReadonlySet<DeliveryResult> = new Set(['syncing', 'backpressure']);

/** The recipients of a dispatch at one gateway. */
interface GatewayGroup {
  gateway: string;
  recipients: readonly DispatchRecipient[];
}

/** A group that has room at its gateway. */
type PermittedGroup = GatewayGroup & { release: Release };

/** Creates the dispatch to the gateways of many devices. */
export function createDispatchToMany(
  sendMessages: WorkerStream['send'],
  room: GatewayRoom,
  collectResults: CollectResults,
) {
  /** Sends to groups that have room at their gateways, in one round trip, and releases the room. */
  async function sendGroups(
    delivery: Delivery,
    groups: readonly PermittedGroup[],
    { beforeSend, onResults }: DispatchPlan,
  ): Promise<PartResults> {
    const handedOn = new Set<number>();
    const handingOn: Promise<void>[] = [];
    const held = new Map(groups.map(({ gateway, release }) => [gateway, release]));
    function release(gateway: string): void {
      held.get(gateway)?.();
      held.delete(gateway);
    }
    try {
      const checked = groups.flatMap(({ recipients }) => recipients);
      const permission = await beforeSend(checked);
      if (permission === undefined) return NO_RESULTS;
      const { deadline } = permission;
      const recipients = checked.filter(({ position }) => permission.includes(position));
      const sent = groupByGateway(recipients);
      for (const gateway of [...held.keys()]) if (!sent.has(gateway)) release(gateway);
      const gatewayAt = new Map([...sent].map(([gateway, [first]]) => [first?.position, gateway]));
      const send = (pending: PendingDispatch, messageFor: MessageFor) =>
        sendToGateways(sendMessages, pending, [...sent.values()], messageFor);
      const onReply: OnReply = ({ result, positions }) => {
        if (result === 'handled') return release(gatewayAt.get(positions[0] ?? 0) ?? '');
        if (onResults === undefined || !ROW_AWAITED.has(result)) return;
        const own = new Set(recipients.map(({ position }) => position));
        const early = positions.filter((position) => own.has(position) && !handedOn.has(position));
        for (const position of early) handedOn.add(position);
        handingOn.push(onResults(new Map(early.map((position) => [position, result]))));
      };
      const results = await collectResults(delivery, recipients, { deadline, send, onReply });
      for (const [gateway, group] of sent) {
        const isSilent = group.every(({ position }) => results.get(position) === 'unanswered');
        // One missing reply concerns its recipient.
        if (isSilent && group.length > 1 && held.has(gateway)) room.refuseWaiting(gateway);
      }
      return { results, handedOn };
    } finally {
      for (const gateway of [...held.keys()]) release(gateway);
      await Promise.all(handingOn);
    }
  }

  /** Sends to the group of a gateway once there is room. */
  async function sendWhenRoom(
    delivery: Delivery,
    { gateway, recipients }: GatewayGroup,
    plan: DispatchPlan,
  ): Promise<PartResults> {
    const release = await room.take({ gateway, app: plan.app, size: recipients.length });
    if (release === undefined) return allNotSent(recipients);
    return sendGroups(delivery, [{ gateway, recipients, release }], plan);
  }

  /**
   * Dispatches a delivery to the gateways of these recipients and waits for the results. What has room at its gateways is sent
   * at once; the rest waits, each gateway by itself (gateway-room.ts).
   *
   * @returns a result for every position that was to be sent, at the latest 1.5 s after its deadline
   * @throws if Redis fails, or `beforeSend` does; results of the other parts were handed on, and gateways that received the
   *   delivery still reply to the reply stream
   */
  return async function dispatch(
    delivery: Delivery,
    recipients: readonly DispatchRecipient[],
    plan: DispatchPlan,
  ): Promise<Results> {
    const ready: PermittedGroup[] = [];
    const parts: Promise<PartResults>[] = [];
    for (const [gateway, group] of groupByGateway(recipients)) {
      const hasCredit = group[0]?.presence.credit !== 0;
      const release = hasCredit ? room.tryTake({ gateway, size: group.length }) : undefined;
      if (release !== undefined) ready.push({ gateway, recipients: group, release });
      else if (hasCredit && plan.mayWait)
        parts.push(sendWhenRoom(delivery, { gateway, recipients: group }, plan));
      else parts.push(Promise.resolve(allNotSent(group)));
    }
    if (ready.length > 0) parts.push(sendGroups(delivery, ready, plan));
    return joinParts(parts, plan);
  };
}

function allNotSent(recipients: readonly DispatchRecipient[]): PartResults {
  const results: Results = new Map(recipients.map(({ position }) => [position, 'not-sent']));
  return { results, handedOn: NO_POSITIONS };
}

/** Waits for all parts, hands on the results of each, and joins them. Throws if one failed, once all have ended. */
async function joinParts(
  parts: readonly Promise<PartResults>[],
  { onResults }: DispatchPlan,
): Promise<Results> {
  const settled = await Promise.allSettled(
    parts.map(async (sending) => {
      const { results, handedOn } = await sending;
      const isLeft = ([position]: [number, DeliveryResult]) => !handedOn.has(position);
      await onResults?.(handedOn.size === 0 ? results : new Map([...results].filter(isLeft)));
      return results;
    }),
  );
  const joined = settled.map((part) => {
    if (part.status === 'rejected') throw part.reason;
    return part.value;
  });
  const [only] = joined;
  return joined.length === 1 && only !== undefined
    ? only
    : new Map(joined.flatMap((part) => [...part]));
}

/** Sends one message to each gateway, all in one round trip. */
async function sendToGateways(
  sendMessages: WorkerStream['send'],
  pending: PendingDispatch,
  groups: readonly (readonly DispatchRecipient[])[],
  messageFor: MessageFor,
): Promise<void> {
  if (groups.length === 0) return pending.settle();
  const messages = groups.map(async (group) => ({
    gateway: group[0]?.presence.gateway ?? '',
    fields: await messageFor(group),
  }));
  const ids = await sendMessages(await Promise.all(messages));
  for (const [index, id] of ids.entries()) {
    // Without a stream the gateway stopped or acquired a new identity.
    if (id === null)
      for (const { position } of groups[index] ?? []) pending.record(position, 'not-connected');
  }
}

/** Groups recipients by their gateway. */
export function groupByGateway<R extends { presence: PresenceEntry }>(
  recipients: readonly R[],
): Map<string, R[]> {
  return Map.groupBy(recipients, ({ presence }) => presence.gateway);
}
