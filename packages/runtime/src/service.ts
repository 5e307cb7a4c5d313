import closeWithGrace from 'close-with-grace';
import type { z } from 'zod';
import { type commonEnv, EnvError, readEnv } from './env.ts';
import { createLogger, type Logger } from './logger.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { type ReadyCheck, serveOps } from './ops.ts';

/** What a service gets to build itself. */
export interface ServiceContext {
  log: Logger;
  metrics: Metrics;
  /** Registers the release of something just opened; releases run in reverse order. */
  release(name: string, release: () => Promise<void> | void): void;
  /** Adds a condition for /readyz. */
  readyWhen(check: ReadyCheck): void;
}

const STOP_DEADLINE_MS = 20_000;

type CommonSchema = z.ZodObject<typeof commonEnv>;

/**
 * Runs a service from its environment to its end: reads the settings, opens the ops port, calls `start`,
 * is ready, and on SIGTERM, SIGINT or the end of the process that started it releases everything and exits.
 * A surprise (uncaught exception) ends the process with code 1: leases and the supervisor recover.
 */
export async function runService<S extends CommonSchema>(
  name: string,
  schema: S,
  start: (context: ServiceContext, env: z.infer<S>) => Promise<void>,
): Promise<void> {
  const env = readSettings(schema);
  const log = createLogger(name, env.LOG_LEVEL);
  const metrics = createMetrics();
  const state = { started: false, stopping: false, checks: [] as ReadyCheck[] };
  const releases: { name: string; release: () => Promise<void> | void }[] = [];

  const grace = closeWithGrace(
    { delay: STOP_DEADLINE_MS, logger: false },
    async ({ signal, err }) => {
      state.stopping = true;
      if (err !== undefined) log.fatal({ err }, 'ended by a surprise');
      else log.info({ signal }, 'stopping');
      for (const { name: what, release } of releases.reverse()) {
        await Promise.resolve(release()).catch((error: unknown) =>
          log.warn({ err: error, what }, 'release failed'),
        );
      }
      log.info('stopped');
    },
  );
  // Whoever started us may die without a word; the channel's end is its last one.
  process.once('disconnect', () => void grace.close());

  const closeOps = await serveOps(env.OPS_LISTEN, metrics, state);
  releases.push({ name: 'ops', release: closeOps });
  await start(
    {
      log,
      metrics,
      release: (what, release) => releases.push({ name: what, release }),
      readyWhen: (check) => state.checks.push(check),
    },
    env,
  );
  state.started = true;
  log.info('ready');
}

function readSettings<S extends CommonSchema>(schema: S): z.infer<S> {
  try {
    return readEnv(schema, process.env);
  } catch (error) {
    if (!(error instanceof EnvError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  }
}
