import { APP_EVENTS, type AppCounts, OTHER_APPS } from '@carillon/core/app-counts';
import { executePipeline } from './execute-pipeline.ts';
import { type AppBacklogFigures, createFiguresKeys, MINUTE_MS } from './figures.ts';
import type { Redis } from './redis.ts';
import { timeToMs } from './redis-time.ts';

/** Minutes that one read returns, the current one included. */
const MINUTES = 60;
/** Minutes after the begin of one in which processes still add to it, so that each read reads it. */
const OPEN_MINUTES = 2;

/** Counts by app in one minute, summed over all processes. */
export interface AppMinute {
  at: number;
  apps: ReadonlyMap<string, AppCounts>;
}

/** The figures of each app in the last hour. Times are milliseconds by Redis's clock. */
export interface AppFigures {
  /** The minutes of the last hour, in order. */
  minutes: AppMinute[];
  /** Pending work of the apps that have most; undefined until a scheduler has counted. */
  backlog: AppBacklogFigures[] | undefined;
}

/** Encodes counts by app as fields of the hash of a minute. */
export function toAppFields(apps: ReadonlyMap<string, AppCounts>): Record<string, number> {
  const entries = [...apps].flatMap(([app, counts]) =>
    Object.entries(counts).map(([event, count]) => [`${event}:${app}`, count] as const),
  );
  return Object.fromEntries(entries);
}

/** Decodes the hash of a minute; events of a newer release are left out. */
function decodeApps(hash: Readonly<Record<string, string>>): Map<string, AppCounts> {
  const apps = new Map<string, AppCounts>();
  for (const [field, count] of Object.entries(hash)) {
    const colon = field.indexOf(':');
    const event = APP_EVENTS.find((one) => one === field.slice(0, colon));
    const app = field.slice(colon + 1);
    if (event !== undefined) apps.set(app, { ...apps.get(app), [event]: Number(count) });
  }
  return apps;
}

/**
 * Creates a reader of the figures of each app. It keeps the minutes that it has read: a read takes those that may still
 * grow, and one earlier minute in turn, to which a process without Redis may have added late.
 */
export function createAppFiguresReader(redis: Redis) {
  const keys = createFiguresKeys(redis);
  const known = new Map<number, AppMinute & { readAt: number }>();
  let turn = 0;

  /**
   * Reads the last hour.
   *
   * @throws if Redis fails
   */
  async function read(): Promise<AppFigures> {
    const now = timeToMs(await redis.time());
    const current = Math.floor(now / MINUTE_MS);
    const minutes = Array.from({ length: MINUTES }, (_, n) => current - MINUTES + 1 + n);
    for (const minute of known.keys()) if (minute <= current - MINUTES) known.delete(minute);
    turn = (turn + 1) % MINUTES;
    const isOpenAt = (minute: number, at: number) => at < (minute + OPEN_MINUTES) * MINUTE_MS;
    const due = minutes.filter(
      (minute) => minute % MINUTES === turn || isOpenAt(minute, known.get(minute)?.readAt ?? 0),
    );
    const pipeline = redis.pipeline();
    pipeline.get(keys.appBacklog);
    for (const minute of due) pipeline.hgetall(keys.apps(minute));
    const [backlog, ...hashes] = await executePipeline(pipeline);
    for (const [n, minute] of due.entries()) {
      const apps = decodeApps(hashes[n] as Record<string, string>);
      known.set(minute, { at: minute * MINUTE_MS, apps, readAt: now });
    }
    return {
      minutes: minutes.flatMap((minute) => known.get(minute) ?? []),
      backlog:
        typeof backlog === 'string' ? (JSON.parse(backlog) as AppBacklogFigures[]) : undefined,
    };
  }

  return {
    read,
    /**
     * Lists the apps that have accepted pushes in the last hour. Those with the fewest ended recipients per push come
     * first, because their pushes may be waiting.
     *
     * @throws if Redis fails
     */
    async listActive(): Promise<string[]> {
      const sums = sumAppMinutes((await read()).minutes);
      sums.delete(OTHER_APPS);
      const endsPerPush = ({ accepted = 0, delivered = 0, sent = 0, failed = 0 }: AppCounts) =>
        (delivered + sent + failed) / accepted;
      return [...sums]
        .filter(([, { accepted = 0 }]) => accepted > 0)
        .sort(([, one], [, other]) => endsPerPush(one) - endsPerPush(other))
        .map(([app]) => app);
    },
  };
}

/** Adds up the minutes by app. */
export function sumAppMinutes(minutes: readonly AppMinute[]): Map<string, AppCounts> {
  const sums = new Map<string, AppCounts>();
  for (const { apps } of minutes)
    for (const [app, counts] of apps) sums.set(app, sumCounts(sums.get(app), counts));
  return sums;
}

/** Adds counts of an app; kinds without an event stay absent. */
export function sumCounts(one: AppCounts = {}, other: AppCounts): AppCounts {
  const sum = { ...one };
  for (const event of APP_EVENTS) {
    const count = (one[event] ?? 0) + (other[event] ?? 0);
    if (count > 0) sum[event] = count;
  }
  return sum;
}
