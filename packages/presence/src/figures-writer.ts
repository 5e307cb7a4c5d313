import { startInterval } from '@carillon/core/intervals';
import { resultWithin } from '@carillon/core/with-timeout';
import { createAppFiguresReader } from './app-figures.ts';
import { type AppBacklogFigures, type BacklogFigures, encodeBacklog, FIELDS } from './figures.ts';
import { createDeltas, createGauges, readTotals } from './figures-counters.ts';
import { createFiguresSender } from './figures-sender.ts';
import { type OpenCircuit, writeOpenCircuits } from './open-circuits.ts';
import { createRedis, type RedisAddress } from './redis.ts';

/** Interval of the writes to Redis. */
const INTERVAL_MS = 5_000;
/** Maximum wait for the pending counts, which must not delay the counters. */
const BACKLOG_TIMEOUT_MS = 2_000;
/** Maximum duration of the last write. */
const STOP_TIMEOUT_MS = 500;
/** Minimum interval between two log lines about failed writes. */
const REPORT_INTERVAL_MS = 60_000;

/** Settings of a process's figures. */
export interface FiguresOptions {
  /** Receives a warning at most once a minute while Redis fails. */
  log: { warn(fields: { err: unknown }, text: string): void };
  /** Returns the receipts of this process so far by the upper bound of their latency. */
  readBuckets?(): Iterable<{ boundMs: number; count: number }>;
  intervalMs?: number;
}

/** Reads the pending work by channel and by app; a result is undefined if that fails. */
interface BacklogReads {
  channels(): Promise<readonly BacklogFigures[] | undefined>;
  apps(): Promise<readonly AppBacklogFigures[] | undefined>;
}

/** The figures of a process. */
export type Figures = ReturnType<typeof startFigures>;

/**
 * Adds the counts of this process (`core/process-counts`) to the figures in Redis, every 5 s in one command, and only
 * if there is something to write. Counts that Redis did not accept are added later, to the minute in which they were
 * counted. A write whose response was lost is sent again under its number, which Redis keeps for a day, so it is added
 * once. Counts that a killed process has not sent yet are lost.
 */
export function startFigures(
  address: RedisAddress,
  { log, readBuckets = () => [], intervalMs = INTERVAL_MS }: FiguresOptions,
) {
  const report = createReporter(log);
  const redis = createRedis(address, 'command', report);
  const sender = createFiguresSender(redis);
  const counters = createDeltas(() => readTotals(readBuckets()));
  const gauges = createGauges();
  let readBacklog: BacklogReads | undefined;
  let isBacklogReader = false;
  /** Pending work by app that is to be written, as JSON. */
  let appBacklog: string | undefined;
  let listCircuits: () => Iterable<OpenCircuit> = () => [];

  async function flush(): Promise<void> {
    counters.collect();
    if (redis.status !== 'ready') return;
    await sender.resend();
    const fields = gauges.takeDue();
    const deltas = counters.take();
    // A scheduler checks each time for a viewer.
    const canReadBacklog = readBacklog !== undefined;
    if (deltas.length === 0 && Object.keys(fields).length === 0 && !canReadBacklog) return;
    isBacklogReader = await sender.send(deltas, { fields, appBacklog }, canReadBacklog);
    appBacklog = undefined;
  }

  async function reportCircuits(): Promise<void> {
    if (redis.status === 'ready') await writeOpenCircuits(redis, listCircuits());
  }

  async function updateBacklog(): Promise<void> {
    if (!isBacklogReader || readBacklog === undefined) return;
    const within = <T>(reading: Promise<T>) =>
      resultWithin(reading.catch(report), BACKLOG_TIMEOUT_MS, undefined);
    const [channels, apps] = await Promise.all([
      within(readBacklog.channels()),
      within(readBacklog.apps()),
    ]);
    for (const backlog of channels ?? [])
      gauges.set(FIELDS.backlog(backlog.channel), encodeBacklog(backlog));
    if (apps !== undefined) appBacklog = JSON.stringify(apps);
  }

  async function tick(): Promise<void> {
    const wasBacklogReader = isBacklogReader;
    await reportCircuits();
    await updateBacklog();
    await flush();
    if (wasBacklogReader || !isBacklogReader) return;
    // The first viewer need not wait for the next tick.
    await updateBacklog();
    await flush();
  }

  const ticks = startTicks(() => tick().catch(report), intervalMs);
  return {
    /** Adds the number of connected devices of a gateway; `read` is called every 5 s. */
    reportOnline: (gateway: string, read: () => number): void =>
      gauges.watch(FIELDS.online(gateway), () => String(read())),
    /** Lists the apps that have accepted pushes in the last hour; rejects if Redis fails. */
    listActiveApps: createAppFiguresReader(redis).listActive,
    /** Adds the pending work; `read` is called every 5 s while there is a viewer, in one scheduler of all. */
    reportBacklog(read: BacklogReads): void {
      readBacklog = read;
    },
    /** Shares the open circuits of this process; `list` is called every 5 s, and nothing is written while none is open. */
    reportCircuits(list: () => Iterable<OpenCircuit>): void {
      listCircuits = list;
    },
    /** Sends the last counts, for at most 500 ms, and closes the connection. */
    async stop(): Promise<void> {
      const last = ticks.stop().then(flush).catch(report);
      await resultWithin(last, STOP_TIMEOUT_MS, undefined);
      redis.disconnect();
    },
  };
}

/** Repeats a step, never twice at once, without keeping the process alive. */
function startTicks(step: () => Promise<void>, intervalMs: number): { stop(): Promise<void> } {
  let inFlight: Promise<void> | undefined;
  const stop = startInterval(() => {
    inFlight ??= step().finally(() => {
      inFlight = undefined;
    });
  }, intervalMs);
  return {
    async stop() {
      stop();
      await inFlight;
    },
  };
}

/** Logs an error at most once a minute. */
function createReporter(log: FiguresOptions['log']): (error: unknown) => undefined {
  let reportedAt = Number.NEGATIVE_INFINITY;
  return (err) => {
    if (performance.now() - reportedAt < REPORT_INTERVAL_MS) return;
    reportedAt = performance.now();
    log.warn({ err }, 'the figures of the console are not added to Redis; they are added later');
  };
}
