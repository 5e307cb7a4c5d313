import type { Span, SpanAttributes, Tracer } from '@carillon/core/tracing';
import {
  type Span as OtelSpan,
  type Tracer as OtelTracer,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api';
import { ExportResultCode, parseTraceParent } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  SamplingDecision,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Logger } from './logger.ts';

/** Settings of the traces. */
export interface TracingSettings {
  /** Base URL of the receiver. */
  endpoint: string;
  /** Part of the requests without a trace of the caller that are sampled, 0 to 1. */
  ratio: number;
}

/**
 * Maximum spans that wait for the exporter; above it new ones are dropped. The process keeps only these and those in an
 * export.
 */
const MAX_QUEUED_SPANS = 4_096;
const SPANS_PER_EXPORT = 512;
const EXPORT_INTERVAL_MS = 1_000;
/** Timeout of one export with its retries. */
const EXPORT_TIMEOUT_MS = 5_000;
/** Maximum links of a span: enough for a batched write, which up to 500 pushes share. */
const MAX_LINKS = 500;
/** Minimum interval between two warnings. */
const WARN_INTERVAL_MS = 60_000;

const NO_ATTRIBUTES: SpanAttributes = {};

/** Creates the tracer of a process, and the function that exports the remaining spans and stops it. */
export function createOpenTelemetry(
  service: string,
  { endpoint, ratio }: TracingSettings,
  log: Pick<Logger, 'warn'>,
): { tracer: Tracer; stop(): Promise<void> } {
  const exporter = new OTLPTraceExporter({
    url: `${endpoint.replace(/\/+$/, '')}/v1/traces`,
    timeoutMillis: EXPORT_TIMEOUT_MS,
    // The processor exports one batch at a time, but all that are left at once when it stops.
    concurrencyLimit: MAX_QUEUED_SPANS / SPANS_PER_EXPORT + 1,
  });
  const processor = new BatchSpanProcessor({
    exporter: reportFailures(exporter, log),
    maxQueueSize: MAX_QUEUED_SPANS,
    maxExportBatchSize: SPANS_PER_EXPORT,
    scheduledDelayMillis: EXPORT_INTERVAL_MS,
    // The exporter's own timeout comes first, and with it the failure's reason.
    exportTimeoutMillis: 2 * EXPORT_TIMEOUT_MS,
  });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': `carillon-${service}` }),
    sampler: createSampler(ratio),
    spanLimits: { linkCountLimit: MAX_LINKS },
    spanProcessors: [processor],
  });
  return {
    tracer: createTracer(provider.getTracer('carillon')),
    stop: () => provider.shutdown(),
  };
}

/** Samples as the parent, or by the ratio. A span of shared work is only recorded for sampled traces, to which it links. */
function createSampler(ratio: number): Sampler {
  const byParent = new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) });
  return {
    shouldSample: (context, traceId, name, kind, attributes, links) =>
      links.length > 0
        ? { decision: SamplingDecision.RECORD_AND_SAMPLED }
        : byParent.shouldSample(context, traceId, name, kind, attributes, links),
    toString: () => byParent.toString(),
  };
}

/** Logs failed exports at most once a minute. The spans of a failed export are lost; nothing waits for them. */
function reportFailures(exporter: SpanExporter, log: Pick<Logger, 'warn'>): SpanExporter {
  let failedSpans = 0;
  let warnedAt = Number.NEGATIVE_INFINITY;
  function recordFailure(spans: number, err: Error | undefined): void {
    failedSpans += spans;
    if (performance.now() - warnedAt < WARN_INTERVAL_MS) return;
    warnedAt = performance.now();
    log.warn({ err, spans: failedSpans }, 'exporting traces failed; these spans are lost');
    failedSpans = 0;
  }
  return {
    export(spans, onResult) {
      exporter.export(spans, (result) => {
        if (result.code !== ExportResultCode.SUCCESS) recordFailure(spans.length, result.error);
        onResult(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
  };
}

function createTracer(tracer: OtelTracer): Tracer {
  return {
    startRequest(name, traceparent, startedAt, attributes) {
      const span = tracer.startSpan(
        name,
        { kind: SpanKind.SERVER, attributes, startTime: toEpochMs(startedAt) },
        parentContext(parseContext(traceparent)),
      );
      return span.isRecording() ? wrapSpan(tracer, span) : undefined;
    },
    continueTrace(name, traceparent, startedAt, attributes) {
      const parent = parseContext(traceparent);
      if (parent === undefined || (parent.traceFlags & TraceFlags.SAMPLED) === 0) return undefined;
      const span = tracer.startSpan(
        name,
        { kind: SpanKind.CONSUMER, attributes, startTime: toEpochMs(startedAt) },
        parentContext(parent),
      );
      return wrapSpan(tracer, span);
    },
    recordShared(name, traceparents, startedAt, attributes) {
      const links = traceparents.flatMap((traceparent) => {
        const context = parseContext(traceparent);
        return context === undefined ? [] : [{ context }];
      });
      if (links.length === 0) return;
      tracer
        .startSpan(
          name,
          { attributes, links, root: true, startTime: toEpochMs(startedAt) },
          ROOT_CONTEXT,
        )
        .end();
    },
  };
}

function wrapSpan(tracer: OtelTracer, span: OtelSpan): Span {
  const { traceId, spanId } = span.spanContext();
  const linked = new Set<string>();
  return {
    traceparent: `00-${traceId}-${spanId}-01`,
    startChild(name, attributes = NO_ATTRIBUTES) {
      const context = trace.setSpan(ROOT_CONTEXT, span);
      return wrapSpan(tracer, tracer.startSpan(name, { attributes }, context));
    },
    link(traceparent) {
      const context = linked.has(traceparent) ? undefined : parseContext(traceparent);
      if (context === undefined) return;
      linked.add(traceparent);
      span.addLink({ context });
    },
    end(attributes) {
      if (!span.isRecording()) return;
      if (attributes !== undefined) span.setAttributes(attributes);
      if (attributes?.['error.type'] !== undefined) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    },
  };
}

function parseContext(traceparent: string | undefined): SpanContext | undefined {
  if (traceparent === undefined) return undefined;
  return parseTraceParent(traceparent) ?? undefined;
}

function parentContext(parent: SpanContext | undefined) {
  if (parent === undefined) return ROOT_CONTEXT;
  return trace.setSpanContext(ROOT_CONTEXT, { ...parent, isRemote: true });
}

/** Converts by the clock of now: over weeks the monotonic clock drifts from it. */
function toEpochMs(monotonicMs: number): number {
  return Date.now() - (performance.now() - monotonicMs);
}
