import {
  type AppCounts,
  addAppCounts,
  MAX_COUNTED_APPS,
  OTHER_APPS,
  takeAppCounts,
} from '@carillon/core/app-counts';
import { processCounts } from '@carillon/core/process-counts';
import { FIELDS, MINUTE_MS } from './figures.ts';

/** Interval at which an unchanged gauge is written again, before readers take it for outdated. */
const GAUGE_REFRESH_MS = 9_000;
/** Maximum minutes of counters that wait for Redis; older ones are added to the oldest of these. */
const MAX_WAITING_MINUTES = 60;

/** Counters to add to one minute, by field. */
export interface Delta {
  /** Time of their collection, by the monotonic clock. */
  at: number;
  fields: Map<string, number>;
  /** Counts of each app. */
  apps: Map<string, AppCounts>;
}

/** Collects the increase of totals, by minute. */
export function createDeltas(readAll: () => Iterable<readonly [field: string, total: number]>) {
  const collected = new Map<string, number>();
  let waiting: Delta[] = [];
  const limitApp = createAppLimit();
  return {
    collect(): void {
      const apps = new Map<string, AppCounts>();
      for (const [app, counts] of takeAppCounts()) addAppCounts(apps, limitApp(app), counts);
      const fields = new Map<string, number>();
      for (const [field, total] of readAll()) {
        const growth = total - (collected.get(field) ?? 0);
        if (growth === 0) continue;
        fields.set(field, growth);
        collected.set(field, total);
      }
      if (fields.size === 0 && apps.size === 0) return;
      const at = performance.now();
      const last = waiting.at(-1);
      if (last !== undefined && at - last.at < MINUTE_MS) addDelta(last, { fields, apps });
      else waiting.push({ at, fields, apps });
      const [oldest, next] = waiting;
      if (waiting.length <= MAX_WAITING_MINUTES || oldest === undefined) return;
      waiting.shift();
      if (next !== undefined) addDelta(next, oldest);
    },
    take(): Delta[] {
      const taken = waiting;
      waiting = [];
      return taken;
    },
  };
}

function addDelta(to: Delta, { fields, apps }: Omit<Delta, 'at'>): void {
  for (const [field, n] of fields) to.fields.set(field, (to.fields.get(field) ?? 0) + n);
  for (const [app, counts] of apps) addAppCounts(to.apps, app, counts);
}

/** Limits the names of one minute, so that the hash of a minute stays small however many apps there are. */
function createAppLimit(): (app: string) => string {
  let names = new Set<string>();
  let since = performance.now();
  return (app) => {
    if (performance.now() - since >= MINUTE_MS) [names, since] = [new Set(), performance.now()];
    if (names.size >= MAX_COUNTED_APPS && !names.has(app)) return OTHER_APPS;
    names.add(app);
    return app;
  };
}

/** Keeps the values of gauges, and which of them are to be written. */
export function createGauges() {
  const watched = new Map<string, () => string>();
  const changed = new Map<string, string>();
  const written = new Map<string, { value: string; at: number }>();
  return {
    watch: (field: string, read: () => string): void => void watched.set(field, read),
    /** Sets a value, which is written even if it is the former one. */
    set: (field: string, value: string): void => void changed.set(field, value),
    takeDue(): Record<string, string> {
      const now = performance.now();
      for (const [field, read] of watched) {
        const value = read();
        const last = written.get(field);
        if (last?.value === value && now - last.at < GAUGE_REFRESH_MS) continue;
        changed.set(field, value);
        written.set(field, { value, at: now });
      }
      const due = Object.fromEntries(changed);
      changed.clear();
      return due;
    },
  };
}

/** Lists the counts of this process since it started. */
export function* readTotals(
  latencies: Iterable<{ boundMs: number; count: number }>,
): Generator<[field: string, total: number]> {
  yield [FIELDS.accepted, processCounts.pushesAccepted];
  for (const [channel, counts] of processCounts.recipients)
    for (const [outcome, count] of Object.entries(counts))
      yield [FIELDS.ended(channel, outcome), count];
  for (const [queue, count] of processCounts.jobsTaken) yield [FIELDS.taken(queue), count];
  for (const [reason, count] of processCounts.failures) yield [FIELDS.failure(reason), count];
  for (const { boundMs, count } of latencies) yield [FIELDS.latency(boundMs), count];
}
