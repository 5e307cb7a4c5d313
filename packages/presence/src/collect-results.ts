import { type Delivery, encodeGatewayMessage } from './gateway-messages.ts';
import type { OnReport, PendingDispatch, PendingDispatches } from './pending-dispatches.ts';
import type { DeliveryResult } from './replies.ts';
import type { ShardDispatcher } from './shard-dispatcher.ts';

/** A recipient of a delivery, by its position in the batch. */
export interface Recipient {
  token: string;
  position: number;
}

/** Encodes the message to a gateway for recipients of one shard. */
export type MessageFor = (shard: ShardDispatcher, group: readonly Recipient[]) => Promise<string[]>;

/** Sending of the messages of a delivery. */
interface Sending {
  /** By the monotonic clock; gateways write nothing to a socket after it. */
  deadline: number;
  /** Sends the messages. */
  send(pending: PendingDispatch, messageFor: MessageFor): Promise<void>;
  /** Is called with each report about the dispatch. */
  onReport?: OnReport;
}

export type CollectResults = ReturnType<typeof createCollectResults>;

/** Creates the function that sends the messages of a delivery, and waits for the results. */
export function createCollectResults(pendingDispatches: PendingDispatches) {
  return async function collectResults(
    delivery: Delivery,
    recipients: readonly Recipient[],
    { deadline, send, onReport }: Sending,
  ): Promise<Map<number, DeliveryResult>> {
    const positions = recipients.map(({ position }) => position);
    const pending = pendingDispatches.add(delivery, positions, deadline, onReport);
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
  };
}
