import { executePipeline } from './execute-pipeline.ts';
import {
  type BacklogFigures,
  createFiguresKeys,
  decodeMinute,
  type GatewayLoad,
  MAX_GAUGE_AGE_MS,
  MINUTE_MS,
  type MinuteFigures,
  WATCHED_TTL_SECONDS,
} from './figures.ts';
import type { Redis } from './redis.ts';
import { timeToMs } from './redis-time.ts';

/** Maximum minutes that one read returns, the current one included. */
export const MAX_MINUTES = 60;

/** The figures of the last hour, of all processes. Times are milliseconds by Redis's clock. */
export interface FiguresSnapshot {
  readAt: number;
  /** Time of the first figures that Redis has; undefined without any. */
  since: number | undefined;
  /** The minutes since then, in order; a minute in which nothing happened has zeros. */
  minutes: (Pick<MinuteFigures, 'accepted' | 'ended' | 'failures' | 'taken' | 'latencies'> & {
    at: number;
  })[];
  /** The newest value of each gateway, unless it is older than 15 s. */
  gateways: GatewayLoad[];
  /** The newest value of each channel, unless it is older than 15 s: the first comes some seconds after the first read. */
  channels: BacklogFigures[];
}

/** Creates a reader of the figures of all processes. */
export function createFiguresReader(redis: Redis) {
  const keys = createFiguresKeys(redis);
  let offset: number | undefined;
  return {
    /**
     * Reads the last hour in one pipeline, and marks the figures as watched for 15 s.
     *
     * @throws if Redis fails
     */
    async read(): Promise<FiguresSnapshot> {
      offset ??= timeToMs(await redis.time()) - performance.now();
      const current = Math.floor((offset + performance.now()) / MINUTE_MS);
      const minutes = Array.from({ length: MAX_MINUTES }, (_, n) => current - MAX_MINUTES + 1 + n);
      const pipeline = redis.pipeline();
      pipeline.time();
      pipeline.set(keys.watched, 1, 'EX', WATCHED_TTL_SECONDS);
      pipeline.get(keys.since);
      for (const minute of minutes) pipeline.hgetall(keys.minute(minute));
      const [time, , since, ...hashes] = await executePipeline(pipeline);
      const readAt = timeToMs(time as string[]);
      offset = readAt - performance.now();
      return createSnapshot(
        readAt,
        since === null ? undefined : Number(since),
        hashes.map((hash, n) => ({
          at: (minutes[n] ?? 0) * MINUTE_MS,
          hash: hash as Record<string, string>,
        })),
      );
    },
  };
}

function createSnapshot(
  readAt: number,
  since: number | undefined,
  hashes: readonly { at: number; hash: Record<string, string> }[],
): FiguresSnapshot {
  const known = hashes.filter(
    ({ at, hash }) => Object.keys(hash).length > 0 || (since ?? readAt) < at + MINUTE_MS,
  );
  const minutes = known.map(({ at, hash }) => ({ at, figures: decodeMinute(hash) }));
  // Gauges of the minute before: this one may have none yet.
  const recent = minutes.slice(-2).map(({ figures }) => figures);
  const isFresh = ({ at }: { at: number }) => readAt - at <= MAX_GAUGE_AGE_MS;
  const gateways = new Map<string, GatewayLoad>();
  const channels = new Map<string, BacklogFigures>();
  for (const { gateways: loads, channels: backlogs } of recent) {
    for (const { at, ...load } of loads.filter(isFresh)) gateways.set(load.gateway, load);
    for (const { at, ...backlog } of backlogs.filter(isFresh))
      channels.set(backlog.channel, backlog);
  }
  return {
    readAt,
    since,
    minutes: minutes.map(({ at, figures: { accepted, ended, failures, taken, latencies } }) => {
      return { at, accepted, ended, failures, taken, latencies };
    }),
    gateways: [...gateways.values()],
    channels: [...channels.values()],
  };
}
