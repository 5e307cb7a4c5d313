import type { BatchHandler } from './batcher.ts';
import type { OutcomeName } from './outcomes.ts';

/** Names of all spans. */
export type SpanName =
  | 'POST /push'
  | 'insert pushes'
  | 'send job'
  | 'fan out'
  | 'claim batches'
  | 'deliver batch'
  | 'dispatch'
  | 'send to provider'
  | 'await receipts'
  | 'replay inbox'
  | 'open due pushes'
  | 'reconcile'
  | 'settle batches';

/** Sets of counts by the result of each recipient: every key comes from a fixed set. */
type CountName = `carillon.outcome.${OutcomeName}` | `carillon.result.${string}`;

/**
 * Attributes of a span. The id of a push is the only identifier: never a payload, device token, API key, topic name,
 * collapse key or provider address.
 */
export type SpanAttributes = Partial<
  Record<
    | 'carillon.push.id'
    | 'carillon.channel'
    | 'carillon.batch.end'
    | 'http.request.method'
    | 'http.route'
    | 'error.type',
    string
  > &
    Record<'carillon.recipients' | 'carillon.items' | CountName, number>
>;

/** A span of a sampled trace. It must be ended; a second end is ignored. */
export interface Span {
  /** The context for spans of other processes: value of the header `traceparent` (W3C Trace Context). */
  readonly traceparent: string;
  startChild(name: SpanName, attributes?: SpanAttributes): Span;
  /** Refers to another span, which is no ancestor. */
  link(traceparent: string): void;
  end(attributes?: SpanAttributes): void;
}

/** Records spans. Without tracing there is none: `undefined` is all that other code has to check. */
export interface Tracer {
  /**
   * Starts the trace of a request, or continues the caller's.
   *
   * @param traceparent the request's header; a malformed one is ignored
   * @param startedAt by the monotonic clock (`performance.now()`)
   * @returns undefined if the trace is not sampled, by the caller's decision or, without a caller's trace, by the ratio
   */
  startRequest(
    name: SpanName,
    traceparent: string | undefined,
    startedAt: number,
    attributes: SpanAttributes,
  ): Span | undefined;
  /**
   * Continues a sampled trace of another process.
   *
   * @returns undefined if the context is absent or malformed
   */
  continueTrace(
    name: SpanName,
    traceparent: string | undefined,
    startedAt: number,
    attributes: SpanAttributes,
  ): Span | undefined;
  /**
   * Records finished work that several traces share. The span links to them and has no parent among them. Does nothing
   * without a trace.
   */
  recordShared(
    name: SpanName,
    traceparents: readonly string[],
    startedAt: number,
    attributes: SpanAttributes,
  ): void;
}

/** Turns counts into attributes; `prefix` and the keys come from fixed sets. */
export function countAttributes(
  prefix: 'outcome' | 'result',
  counts: Readonly<Record<string, number>>,
): SpanAttributes {
  return Object.fromEntries(
    Object.entries(counts).map(([name, count]) => [`carillon.${prefix}.${name}`, count]),
  );
}

/**
 * Makes a batch handler record a span for each batch with traced items. Without a tracer it returns the handler itself.
 *
 * @param traceOf returns the context of an item's trace; the result is absent if the handler failed
 */
export function traceBatches<T, R>(
  tracer: Tracer | undefined,
  name: SpanName,
  traceOf: (item: T, result: R | Error | undefined) => string | undefined,
  handleBatch: BatchHandler<T, R>,
): BatchHandler<T, R> {
  if (tracer === undefined) return handleBatch;
  return async (items) => {
    const startedAt = performance.now();
    let results: readonly (R | Error)[] = [];
    try {
      results = await handleBatch(items);
      return results;
    } finally {
      const traces = items.map((item, index) => traceOf(item, results[index]));
      const sampled = traces.filter((trace) => trace !== undefined);
      tracer.recordShared(name, sampled, startedAt, { 'carillon.items': items.length });
    }
  };
}
