import type { Tracer } from '@carillon/core/tracing';
import { withTimeout } from '@carillon/core/with-timeout';
import type { Logger } from './logger.ts';
import type { TracingSettings } from './opentelemetry.ts';

/** Maximum duration of the last export: a receiver that doesn't respond must not delay the stop of a process. */
const STOP_TIMEOUT_MS = 2_000;

/**
 * Starts tracing. Without settings no module of the OpenTelemetry SDK is loaded and there is no tracer.
 */
export async function startTracing(
  service: string,
  settings: TracingSettings | undefined,
  log: Pick<Logger, 'warn'>,
): Promise<{ tracer: Tracer | undefined; stop(): Promise<void> }> {
  if (settings === undefined) return { tracer: undefined, stop: async () => undefined };
  const { createOpenTelemetry } = await import('./opentelemetry.ts');
  const { tracer, stop } = createOpenTelemetry(service, settings, log);
  return { tracer, stop: () => withTimeout(stop(), STOP_TIMEOUT_MS, 'the receiver of traces') };
}
