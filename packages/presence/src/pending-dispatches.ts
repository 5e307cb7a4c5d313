import { countAttributes, type Span, type Tracer } from '@carillon/core/tracing';
import type { Delivery } from './gateway-messages.ts';
import type { DeliveryResult, Reply } from './replies.ts';

/** Wait for replies after the deadline: 1 s for the device's PUBACK, 0.5 s for the transport. */
const REPLY_GRACE_MS = 1_500;

/** A dispatch that waits for results. */
export interface PendingDispatch {
  claim: string;
  /** Context of its span, if the push is traced. */
  trace: string | undefined;
  /** Resolves with a result for each position, at the latest 1.5 s after the deadline. */
  whenSettled: Promise<Map<number, DeliveryResult>>;
  /** Records the result of a recipient of this dispatch, unless it has one. */
  record(position: number, result: DeliveryResult): void;
  /** Ends the wait: recipients without a result are `unanswered`. */
  settle(): void;
}

/** Takes a gateway's reply to a claim, once its results are recorded. The claim may have other dispatches. */
export type OnReply = (reply: Reply) => void;

interface WaitingDispatch extends PendingDispatch {
  span: Span | undefined;
  onReply?: OnReply | undefined;
  /** Checks whether a result of the position is waited for, or there. */
  has(position: number): boolean;
}

/** The dispatches of a worker that wait for results. */
export type PendingDispatches = ReturnType<typeof createPendingDispatches>;

/** Creates the collection. */
export function createPendingDispatches(tracer: Tracer | undefined) {
  /** By claim. A claim has several only if a dispatch begins before an earlier one of it has ended. */
  const waiting = new Map<string, WaitingDispatch[]>();

  function remove(dispatch: WaitingDispatch): void {
    const ofClaim = waiting.get(dispatch.claim) ?? [];
    if (ofClaim.length > 1) ofClaim.splice(ofClaim.indexOf(dispatch), 1);
    else waiting.delete(dispatch.claim);
  }

  return {
    /**
     * Adds a dispatch. It is added before anything is sent, because the first reply may arrive before Redis has
     * responded.
     *
     * @param positions of the recipients in the batch
     * @param deadline by the monotonic clock
     */
    add(
      delivery: Delivery,
      positions: readonly number[],
      deadline: number,
      onReply?: OnReply,
    ): PendingDispatch {
      const span = startSpan(tracer, delivery, positions.length);
      const dispatch = { ...createWaiting(delivery.claim, span, positions), onReply };
      // Not `withTimeout`: the deadline holds while the streams are written, too.
      const timeoutMs = deadline + REPLY_GRACE_MS - performance.now();
      const timer = setTimeout(dispatch.settle, Math.max(0, timeoutMs));
      const ofClaim = waiting.get(delivery.claim);
      if (ofClaim === undefined) waiting.set(delivery.claim, [dispatch]);
      else ofClaim.push(dispatch);
      void dispatch.whenSettled.then(() => {
        clearTimeout(timer);
        remove(dispatch);
      });
      return dispatch;
    },
    /** Records a gateway's reply. */
    record(reply: Reply): void {
      const { claim, result, positions, trace } = reply;
      for (const dispatch of waiting.get(claim) ?? []) {
        // Another dispatch of the claim may wait for other gateways.
        if (trace !== undefined && positions.some(dispatch.has)) dispatch.span?.link(trace);
        if (result !== 'handled')
          for (const position of positions) dispatch.record(position, result);
        dispatch.onReply?.(reply);
      }
    },
    /** Ends all waits. */
    settleAll(): void {
      for (const dispatch of [...waiting.values()].flat()) dispatch.settle();
    },
  };
}

function createWaiting(
  claim: string,
  span: Span | undefined,
  positions: readonly number[],
): WaitingDispatch {
  const { promise, resolve } = Promise.withResolvers<Map<number, DeliveryResult>>();
  // One map for both, which does not grow with the replies.
  const results = new Map<number, DeliveryResult>();
  for (const position of positions) results.set(position, 'unanswered');
  let waitingFor = results.size;
  let hasEnded = false;

  function end(): void {
    if (hasEnded) return;
    hasEnded = true;
    span?.end(countResults(results));
    resolve(results);
  }

  return {
    claim,
    span,
    trace: span?.traceparent,
    whenSettled: promise,
    has: (position) => results.has(position),
    record(position, result) {
      if (hasEnded || results.get(position) !== 'unanswered') return;
      results.set(position, result);
      waitingFor -= 1;
      if (waitingFor === 0) end();
    },
    settle: end,
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
