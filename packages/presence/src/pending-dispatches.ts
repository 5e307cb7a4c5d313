import { countAttributes, type Span, type Tracer } from '@carillon/core/tracing';
import type { Delivery } from './gateway-messages.ts';
import type { DeliveryResult, Reply } from './replies.ts';

/** Time after the deadline by which replies arrive: 1 s for the device's PUBACK, 0.5 s for the transport. */
const REPLY_GRACE_MS = 1_500;

/** A dispatch that waits for results. */
export interface PendingDispatch {
  claim: string;
  /** Context of its span, if the push is traced. */
  trace: string | undefined;
  /** Resolves with a result for each position, at the latest 1.5 s after the deadline. */
  whenSettled: Promise<Map<number, DeliveryResult>>;
  /** Records the result of a recipient. */
  record(position: number, result: DeliveryResult): void;
  /** Ends the wait: recipients without a result are `unanswered`. */
  settle(): void;
  /** Ends the wait without a result: nothing was sent. */
  cancel(): void;
}

interface WaitingDispatch extends PendingDispatch {
  span: Span | undefined;
  onHandled?: ((position: number) => void) | undefined;
}

/** The dispatches of a worker that wait for results. */
export type PendingDispatches = ReturnType<typeof createPendingDispatches>;

/** Creates the collection. */
export function createPendingDispatches(tracer: Tracer | undefined) {
  const waiting = new Set<WaitingDispatch>();
  return {
    /**
     * Adds a dispatch. It is added before anything is sent, because the first reply may arrive before Redis has
     * responded.
     *
     * @param positions of the recipients in the batch
     * @param deadline by the monotonic clock
     * @param onHandled is called with the first position of a message that its gateway has handled
     */
    add(
      delivery: Delivery,
      positions: readonly number[],
      deadline: number,
      onHandled?: (position: number) => void,
    ): PendingDispatch {
      const span = startSpan(tracer, delivery, positions.length);
      const dispatch = { ...createWaiting(delivery.claim, span, positions), onHandled };
      // Not `withTimeout`: the deadline holds while the streams are written, too.
      const timeoutMs = deadline + REPLY_GRACE_MS - performance.now();
      const timer = setTimeout(dispatch.settle, Math.max(0, timeoutMs));
      waiting.add(dispatch);
      void dispatch.whenSettled.then(() => {
        clearTimeout(timer);
        waiting.delete(dispatch);
      });
      return dispatch;
    },
    /** Records a gateway's reply. */
    record({ claim, result, positions, trace }: Reply): void {
      for (const dispatch of waiting) {
        if (dispatch.claim !== claim) continue;
        if (trace !== undefined) dispatch.span?.link(trace);
        for (const position of positions) {
          if (result === 'handled') dispatch.onHandled?.(position);
          else dispatch.record(position, result);
        }
      }
    },
    /** Ends all waits. */
    settleAll(): void {
      for (const dispatch of waiting) dispatch.settle();
    },
  };
}

function createWaiting(
  claim: string,
  span: Span | undefined,
  positions: readonly number[],
): WaitingDispatch {
  const { promise, resolve } = Promise.withResolvers<Map<number, DeliveryResult>>();
  const unanswered = new Set(positions);
  const results = new Map<number, DeliveryResult>();
  let hasEnded = false;

  function end(): void {
    if (hasEnded) return;
    hasEnded = true;
    for (const position of unanswered) results.set(position, 'unanswered');
    // Nothing was sent to a device that is offline: there is no span of it.
    if (results.size > 0) span?.end(countResults(results));
    resolve(results);
  }

  return {
    claim,
    span,
    trace: span?.traceparent,
    whenSettled: promise,
    record(position, result) {
      if (!unanswered.delete(position)) return;
      results.set(position, result);
      if (unanswered.size === 0) end();
    },
    settle: end,
    cancel() {
      unanswered.clear();
      end();
    },
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
