import { type Delivery, encodeGatewayMessage } from './gateway-messages.ts';
import type { OnReply, PendingDispatch, PendingDispatches } from './pending-dispatches.ts';
import type { DeliveryResult } from './replies.ts';

/** A recipient of a delivery, by its position in the batch. */
export interface Recipient {
  token: string;
  position: number;
}

/** Encodes the message to a gateway for its recipients. */
export type MessageFor = (group: readonly Recipient[]) => Promise<string[]>;

/** Sending of the messages of a delivery. */
interface Sending {
  /** By the monotonic clock; gateways write nothing to a socket after it. */
  deadline: number;
  /** Sends the messages. */
  send(pending: PendingDispatch, messageFor: MessageFor): Promise<void>;
  onReply?: OnReply;
}

/** Where results are sent to, and the server's time. */
interface ReplyStream {
  /** Name of the worker's stream. */
  replyStream: string;
  /** Converts a time of the monotonic clock to the server's. Throws if that is not known and can't be read. */
  toRedisTime(monotonic: number): Promise<number>;
}

export type CollectResults = ReturnType<typeof createCollectResults>;

/** Creates the function that sends the messages of a delivery, and waits for the results. */
export function createCollectResults(
  { replyStream, toRedisTime }: ReplyStream,
  pendingDispatches: PendingDispatches,
) {
  return async function collectResults(
    delivery: Delivery,
    recipients: readonly Recipient[],
    { deadline, send, onReply }: Sending,
  ): Promise<Map<number, DeliveryResult>> {
    const positions = recipients.map(({ position }) => position);
    const pending = pendingDispatches.add(delivery, positions, deadline, onReply);
    const messageFor: MessageFor = async (group) =>
      encodeGatewayMessage({
        kind: 'deliver',
        delivery: {
          ...delivery,
          ...(pending.trace !== undefined && { trace: pending.trace }),
          reply: replyStream,
          deadline: await toRedisTime(deadline),
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
