import { countAttributes, type Tracer } from '@carillon/core/tracing';
import type { DispatchedDelivery } from '@carillon/presence/gateway-messages';
import type { DeliveryResult } from '@carillon/presence/replies';

/** The span of a traced dispatch, from its arrival to the result of its last recipient. */
export interface DispatchSpan {
  /** Context of the span, for the reply to the worker. */
  readonly traceparent: string;
  /** Counts the result of one recipient. */
  record(result: DeliveryResult): void;
}

/**
 * Starts the span of a dispatch; undefined if its push is not traced. It ends by itself: each recipient gets one result,
 * at the latest a second after the write or when its connection closes.
 */
export function startDispatchSpan(
  tracer: Tracer,
  { trace, push, tokens }: Pick<DispatchedDelivery, 'trace' | 'push' | 'tokens'>,
): DispatchSpan | undefined {
  const span = tracer.continueTrace('await receipts', trace, performance.now(), {
    'carillon.push.id': push,
    'carillon.recipients': tokens.length,
  });
  if (span === undefined) return undefined;
  const counts: Partial<Record<DeliveryResult, number>> = {};
  let remaining = tokens.length;
  return {
    traceparent: span.traceparent,
    record(result) {
      counts[result] = (counts[result] ?? 0) + 1;
      remaining -= 1;
      if (remaining === 0) span.end(countAttributes('result', counts));
    },
  };
}
