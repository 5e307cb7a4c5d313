/** A part of the code whose cost is measured by leaving it out. */
export type Ablation = 'metrics' | 'tracing';

/** A text of a source file, and its replacement in the services. */
export interface Edit {
  /** From the repository's folder. */
  file: string;
  find: string;
  replace: string;
}

const NO_METRICS = `{
    createCounter: () => ({ add: () => undefined }),
    createReadCounter: () => undefined,
    createGauge: () => undefined,
    createHistogram: () => ({ observe: () => undefined }),
    createLatencyHistogram: () => ({ observeMilliseconds: () => undefined, readBuckets: () => [] }),
    expose: async () => ({ contentType: 'text/plain', text: '' }),
  }`;

/**
 * Metrics: the registry with its default metrics, every counter and histogram, and the counts of outcomes and of failed
 * commands. The additions of `processCounts` that are part of a statement stay: they are single integers.
 */
const METRICS: readonly Edit[] = [
  returnEarly('packages/runtime/src/metrics.ts', 'createMetrics(): Metrics {', NO_METRICS),
  {
    file: 'services/device-gateway/src/metrics.ts',
    find: '    const counter = metrics.createCounter(name);\n',
    replace: '    return () => undefined;\n',
  },
  returnEarly(
    'packages/core/src/process-counts.ts',
    'countRecipients(channel: Channel, counts: OutcomeCounts): void {',
  ),
  returnEarly('packages/core/src/process-counts.ts', 'countFailures(codes: Uint8Array): void {'),
  {
    file: 'packages/presence/src/redis-clients.ts',
    find: `    if (!(command as WatchedCommand).isWatched) watchCommand(command);
    return super.sendCommand(command, stream);
`,
    replace: '    return super.sendCommand(command, stream);\n',
  },
  {
    file: 'packages/presence/src/redis-clients.ts',
    find: `    if (!(command as WatchedCommand).isWatched) watchCommand(command);
    return super.sendCommand(command, stream, node);
`,
    replace: '    return super.sendCommand(command, stream, node);\n',
  },
  returnEarly('packages/store/src/count-failures.ts', 'countFailures(db: Db): Db {', 'db'),
];

/** Tracing that is off: each statement on the path of a push that would start, continue or end a span. */
const TRACING: readonly Edit[] = [
  {
    file: 'services/api/src/push/routes.ts',
    find: `      const span = tracer && startSpan(tracer, context);
      const accepting = accept(context, app, span?.traceparent);
      const accepted = await (span === undefined ? accepting : endSpan(span, accepting));
`,
    replace: '      const accepted = await accept(context, app, undefined);\n',
  },
  {
    file: 'services/delivery-worker/src/workers.ts',
    find: '    if (tracer !== undefined) recordJob(tracer, startedAt, results);\n',
    replace: '',
  },
  {
    file: 'services/delivery-worker/src/deliver/deliver-batch.ts',
    find: `  const span = startBatchSpan(resources.tracer, push, batch);
  if (span === undefined) return deliverPush(resources, batch, { push, readAt }, span);
`,
    replace: '  return deliverPush(resources, batch, { push, readAt }, undefined);\n',
  },
  withoutTraceField('services/delivery-worker/src/deliver/deliver-batch.ts', '    '),
  withoutTraceField('services/delivery-worker/src/channels/mqtt/deliver-mqtt.ts', '    '),
  {
    file: 'packages/presence/src/collect-results.ts',
    find: '          ...(pending.trace !== undefined && { trace: pending.trace }),\n',
    replace: '',
  },
  {
    file: 'packages/presence/src/pending-dispatches.ts',
    find: '      const span = startSpan(tracer, delivery, positions.length);\n',
    replace: '      const span = undefined;\n',
  },
  {
    file: 'packages/presence/src/pending-dispatches.ts',
    find: '    if (results.size > 0) span?.end(countResults(results));\n',
    replace: '',
  },
  {
    file: 'services/device-gateway/src/live-delivery.ts',
    find: '      const span = tracer && startDispatchSpan(tracer, delivery);\n',
    replace: '      const span = undefined;\n',
  },
  {
    file: 'services/device-gateway/src/live-delivery.ts',
    find: '    shared.span?.record(result);\n',
    replace: '',
  },
  {
    file: 'services/device-gateway/src/live-delivery.ts',
    find: "      publish.span?.end(countAttributes('result', { [result]: 1 }));\n",
    replace: '',
  },
  { file: 'packages/store/src/sendable-push.ts', find: '  trace: 1,\n', replace: '' },
];

/** The edits that take each part out of the services. */
export const ABLATIONS: Readonly<Record<Ablation, readonly Edit[]>> = {
  metrics: METRICS,
  tracing: TRACING,
};

/** Makes an exported function return at once. */
function returnEarly(file: string, signature: string, value = ''): Edit {
  const find = `export function ${signature}\n`;
  return { file, find, replace: `${find}  return ${value};\n` };
}

/** Leaves a trace's context out of an object. */
function withoutTraceField(file: string, indent: string): Edit {
  const find = `${indent}...(span !== undefined && { trace: span.traceparent }),\n`;
  return { file, find, replace: '' };
}

/**
 * Applies the edits of a file to its source.
 *
 * @param edits of any files
 * @param path ends with the path of the file
 * @returns undefined if no edit is for the file
 * @throws Error if the source does not contain a text that an edit replaces exactly once
 */
export function applyEdits(
  edits: readonly Edit[],
  path: string,
  source: string,
): string | undefined {
  const own = edits.filter(({ file }) => path.endsWith(`/${file}`));
  if (own.length === 0) return undefined;
  return own.reduce((text, { file, find, replace }) => {
    const parts = text.split(find);
    if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times: ${find}`);
    return parts.join(replace);
  }, source);
}
