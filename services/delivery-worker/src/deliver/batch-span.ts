import type { OutcomeCounts } from '@carillon/core/outcomes';
import {
  countAttributes,
  type Span,
  type SpanAttributes,
  type Tracer,
} from '@carillon/core/tracing';
import type { SendablePush } from '@carillon/store/sendable-push';
import type { LeasedBatch } from './channel.ts';

/** Starts the span of one run of a batch; undefined if the push is not traced. */
export function startBatchSpan(
  tracer: Tracer | undefined,
  push: SendablePush,
  { claimedAt, work: { channel, n } }: LeasedBatch,
): Span | undefined {
  return tracer?.continueTrace('deliver batch', push.trace, claimedAt, {
    'carillon.push.id': push._id,
    'carillon.channel': channel,
    'carillon.recipients': n,
  });
}

/** Returns the attributes of a run's end; it failed if there is no result. */
export function describeEnd(
  result: { end: string; outcomes?: OutcomeCounts } | undefined,
): SpanAttributes {
  if (result === undefined) return { 'error.type': 'failed' };
  return {
    'carillon.batch.end': result.end,
    ...countAttributes('outcome', result.outcomes ?? {}),
  };
}
