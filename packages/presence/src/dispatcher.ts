import { createBatcher } from '@carillon/core/batcher';
import { newClaimId } from '@carillon/core/ids';
import type { Tracer } from '@carillon/core/tracing';
import { createCollectResults, type Recipient } from './collect-results.ts';
import {
  createDispatchToMany,
  type DeviceResult,
  type DispatchPlan,
  type DispatchRecipient,
  groupByGateway,
} from './dispatch-to-many.ts';
import { type Delivery, encodeGatewayMessage } from './gateway-messages.ts';
import { createGatewayRoom } from './gateway-room.ts';
import type { PresenceEntry } from './keys.ts';
import { createPendingDispatches } from './pending-dispatches.ts';
import { createPresenceReader, type PresenceReader } from './presence-reader.ts';
import type { PresenceServer } from './presence-server.ts';
import type { DeliveryResult } from './replies.ts';
import { createWorkerStream, type DatedReply } from './worker-stream.ts';

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

/** Creates the dispatcher of a worker. */
export async function createDispatcher(server: PresenceServer, tracer?: Tracer) {
  const pendingDispatches = createPendingDispatches(tracer);
  const stream = await createWorkerStream(server, newClaimId(), pendingDispatches.record);
  const collectResults = createCollectResults(stream, pendingDispatches);
  const room = createGatewayRoom();
  const dispatch = createDispatchToMany(stream.send, room, collectResults);
  const { lookup } = createPresenceReader(server);

  return {
    /** Name of the stream that replies arrive in. Stored with the claim, so that a successor can read them. */
    replyStream: stream.replyStream,
    dispatchToDevices: createDispatchToDevices(lookup, dispatch),
    /** Makes gateways read these devices' inboxes, after the rows of a push were written. Throws if Redis fails. */
    async notifyInboxes(
      push: string,
      recipients: readonly Pick<DispatchRecipient, 'token' | 'presence'>[],
    ): Promise<void> {
      const messages = [...groupByGateway(recipients)].map(([gateway, group]) => {
        const tokens = group.map(({ token }) => token);
        return { gateway, fields: encodeGatewayMessage({ kind: 'drain', tokens, push }) };
      });
      // A missing stream is no error: its gateway stopped, or acquires a new identity and then reads all inboxes.
      await stream.send(messages);
    },
    /** Returns the results of a claim whose worker died, by position. Throws if Redis fails. */
    async readReplies(formerStream: string, claim: string): Promise<Map<number, EarlierResult>> {
      return mergeReplies(await stream.readReplies(formerStream), claim);
    },
    async close(): Promise<void> {
      stream.close();
      room.close();
      pendingDispatches.settleAll();
    },
  };
}

/** Creates the dispatch to devices whose gateways are not known yet. */
function createDispatchToDevices(
  lookup: PresenceReader['lookup'],
  dispatch: ReturnType<typeof createDispatchToMany>,
) {
  /** Lookups of single devices at the same moment share a round trip. */
  const lookupOne = createBatcher<string, PresenceEntry | undefined>('find-gateway', lookup, {
    maxInFlight: 2,
  });

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
    const tokens = recipients.map(({ token }) => token);
    const entries =
      tokens.length > 1 ? await lookup(tokens) : await Promise.all(tokens.map(lookupOne));
    const online: DispatchRecipient[] = [];
    const offline = new Map<number, DeviceResult>();
    for (const [index, recipient] of recipients.entries()) {
      const presence = entries[index];
      if (presence === undefined) offline.set(recipient.position, 'offline');
      else online.push({ ...recipient, presence });
    }
    // Both are awaited: what `onResults` does must have ended, too.
    const [dispatched] = await Promise.allSettled([
      dispatch(delivery, online, plan),
      offline.size > 0 ? plan.onResults?.(offline) : undefined,
    ]);
    if (dispatched.status === 'rejected') throw dispatched.reason;
    return new Map([...offline, ...dispatched.value]);
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
