import { setTimeout as sleep } from 'node:timers/promises';
import { SettingsError } from '@carillon/core/settings-error';
import type { Tracer } from '@carillon/core/tracing';
import closeWithGrace from 'close-with-grace';
import type { z } from 'zod';
import packageJson from '../package.json' with { type: 'json' };
import { type commonEnv, readEnv } from './env.ts';
import { createEventLoopWatch, startBeats } from './event-loop.ts';
import { armFailpoints } from './failpoints.ts';
import { createHealth } from './health.ts';
import { createLogger, type Logger } from './logger.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import type { TracingSettings } from './opentelemetry.ts';
import { startOpsServer } from './ops-server.ts';
import { exposeProcessCounts } from './process-metrics.ts';
import { createProgress, type WatchedLoop } from './progress.ts';
import { createStartConditions, StartAborted } from './start-conditions.ts';
import { startTracing } from './tracing.ts';

/** Parts that a service uses to start. */
export interface ServiceContext {
  log: Logger;
  metrics: Metrics;
  /** Records spans; undefined while tracing is off. */
  tracer: Tracer | undefined;
  /** Registers the release of a resource; releases run in reverse order. */
  release(name: string, release: () => Promise<void> | void): void;
  /**
   * Waits, alive and not ready, until a condition of the start is met: repeats `check` with growing pauses of at most
   * 2 s and returns its result. A SettingsError ends the process, any other error is retried.
   */
  waitFor<T>(name: string, check: () => Promise<T>): Promise<T>;
  /** Adds a loop, without whose progress the process is not ready and, later, not alive. */
  watch(loop: WatchedLoop): void;
  /**
   * Adds an activity that the probes report and never judge, because it depends on clients. Returns the function to
   * call when it has happened.
   */
  trackActivity(name: string): () => void;
}

/** Maximum duration of a stop that has nothing to drain. */
export const STOP_TIMEOUT_MS = 20_000;

/** Times of a stop. */
interface StopTimes {
  /** Time for which a process continues to serve after SIGTERM, unready, so that load balancers remove it. */
  delayMs?: number;
  /** Deadline of the stop after the delay; the process then exits with code 1. */
  timeoutMs?: number;
  /** Ends the process at once after an uncaught exception, without a stop. */
  exitsOnError?: boolean;
}

type CommonSchema = z.ZodObject<typeof commonEnv>;
interface Release {
  name: string;
  release: () => Promise<void> | void;
}

/**
 * Runs a service: reads the settings, starts the ops server, calls `start` and reports ready. On SIGTERM, SIGINT or the
 * end of its parent process it releases all resources and exits. An uncaught exception ends the process with code 1;
 * leases and the supervisor recover from it.
 */
export async function runService<S extends CommonSchema>(
  name: string,
  schema: S,
  start: (context: ServiceContext, env: z.infer<S>) => Promise<void>,
  getStopTimes: (env: z.infer<S>) => StopTimes = () => ({}),
): Promise<void> {
  const env = orExit(() => readEnv(schema, process.env));
  orExit(() => armFailpoints(env.FAILPOINTS, process.env.NODE_ENV));
  const log = createLogger(name, env.LOG_LEVEL);
  const metrics = createMetrics();
  exposeProcessCounts(metrics, { name, version: packageJson.version });
  const stopping = new AbortController();
  const releases: Release[] = [];
  const isServing = () => health.isStarted();
  stopOnSignal({ log, stopping, releases, isServing, ...getStopTimes(env) });

  const progress = createProgress();
  const eventLoop = createEventLoopWatch();
  const conditions = createStartConditions(log, stopping.signal);
  const tracing = await startTracing(name, readTracingSettings(env), log);
  // Released last, so that the spans of the stop are exported too.
  releases.push({ name: 'tracing', release: tracing.stop });
  const health = createHealth({ log, progress, eventLoop, conditions, stopping: stopping.signal });
  const closeOpsServer = await startOpsServer(env.OPS_LISTEN, metrics, health, env.OPS_HOSTS);
  releases.push({ name: 'ops', release: closeOpsServer });
  releases.push({ name: 'event loop', release: startBeats(eventLoop) });
  try {
    await start(
      {
        log,
        metrics,
        tracer: tracing.tracer,
        release: (resource, release) => releases.push({ name: resource, release }),
        waitFor: conditions.waitFor,
        watch: progress.watch,
        trackActivity: progress.trackActivity,
      },
      env,
    );
  } catch (error) {
    // The stop in progress exits.
    if (error instanceof StartAborted) return;
    orExit(() => {
      throw error;
    });
  }
  if (stopping.signal.aborted) return;
  health.markStarted();
  log.info('ready');
}

/** Releases all resources and exits on a signal, the end of the parent process, or an uncaught exception. */
function stopOnSignal({
  log,
  stopping,
  releases,
  isServing,
  delayMs = 0,
  timeoutMs = STOP_TIMEOUT_MS,
  exitsOnError = false,
}: StopTimes & {
  log: Logger;
  stopping: AbortController;
  releases: Release[];
  isServing: () => boolean;
}): void {
  const delay = delayMs + timeoutMs;
  const shutdown = closeWithGrace({ delay, logger: false }, async ({ signal, err }) => {
    stopping.abort();
    if (err !== undefined) log.fatal({ err }, 'stopping after an unexpected error');
    if (err !== undefined && exitsOnError) process.exit(1);
    else log.info({ signal }, 'stopping');
    // Without a signal the process has failed or its parent is gone: nothing waits for a load balancer.
    if (signal !== undefined && isServing()) await sleep(delayMs);
    for (const { name, release } of releases.reverse()) {
      await Promise.resolve(release()).catch((error: unknown) =>
        log.warn({ err: error, what: name }, 'releasing a resource failed'),
      );
    }
    log.info('stopped');
  });
  // A killed parent sends no signal; the closed IPC channel is the only notice.
  process.once('disconnect', () => void shutdown.close());
}

function readTracingSettings(env: z.infer<CommonSchema>): TracingSettings | undefined {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_TRACES_SAMPLER_ARG: ratio } = env;
  return endpoint === undefined ? undefined : { endpoint, ratio };
}

/** Returns the result of a function; ends the process with the text of a SettingsError. */
function orExit<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  }
}
