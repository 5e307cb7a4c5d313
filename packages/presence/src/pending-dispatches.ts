import { countAttributes, type Span, type Tracer } from '@carillon/core/tracing';
import type { Delivery } from './gateway-messages.ts';
import type { DeliveryResult, Reply, Report } from './replies.ts';

/** Time after the deadline by which replies arrive: 1 s for the device's PUBACK, 0.5 s for the transport. */
const REPLY_GRACE_MS = 1_500;

/**
 * Takes a gateway's report: the position of one of its recipients, and how many of those that the dispatch waited for have this
 * result; 0 for `handled`.
 */
export type OnReport = (report: Report, position: number, recipients: number) => void;

/** A dispatch that waits for results. */
export interface PendingDispatch {
  claim: string;
  /** Context of its span, if the push is traced. */
  trace: string | undefined;
  /** Resolves with a result for each position, at the latest 1.5 s after the deadline. */
  whenSettled: Promise<Map<number, DeliveryResult>>;
  /** Records the result of a recipient. False: it has one, or is none of this dispatch. */
  record(position: number, result: DeliveryResult): boolean;
  /** Ends the wait: recipients without a result are `unanswered`. */
  settle(): void;
  /** Ends the wait without a result: nothing was sent. */
  cancel(): void;
}

interface WaitingDispatch extends PendingDispatch {
  span: Span | undefined;
  onReport?: OnReport | undefined;
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
     * @param onReport is called with each report about the claim
     */
    add(
      delivery: Delivery,
      positions: readonly number[],
      deadline: number,
      onReport?: OnReport,
    ): PendingDispatch {
      const span = startSpan(tracer, delivery, positions.length);
      const dispatch = { ...createWaiting(delivery.claim, span, positions), onReport };
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
    record({ claim, result, positions, trace }: Reply): void {
      for (const dispatch of waiting.get(claim) ?? []) {
        // Another dispatch of the claim may wait for other gateways.
        if (trace !== undefined && positions.some(dispatch.has)) dispatch.span?.link(trace);
        if (result === 'handled') dispatch.onReport?.(result, positions[0] ?? 0, 0);
        else recordResult(dispatch, result, positions);
      }
    },
    /** Ends all waits. */
    settleAll(): void {
      for (const dispatch of [...waiting.values()].flat()) dispatch.settle();
    },
  };
}

function recordResult(
  dispatch: WaitingDispatch,
  result: DeliveryResult,
  positions: readonly number[],
): void {
  let recorded = 0;
  let last = 0;
  for (const position of positions) {
    if (!dispatch.record(position, result)) continue;
    recorded += 1;
    last = position;
  }
  if (recorded > 0) dispatch.onReport?.(result, last, recorded);
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
    // Nothing was sent to a device that is offline: there is no span of it.
    if (results.size > 0) span?.end(countResults(results));
    resolve(results);
  }

  return {
    claim,
    span,
    trace: span?.traceparent,
    whenSettled: promise,
    has: (position) => results.has(position),
    record(position, result) {
      if (hasEnded || results.get(position) !== 'unanswered') return false;
      results.set(position, result);
      waitingFor -= 1;
      if (waitingFor === 0) end();
      return true;
    },
    settle: end,
    cancel() {
      if (hasEnded) return;
      for (const [position, result] of results)
        if (result === 'unanswered') results.delete(position);
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
