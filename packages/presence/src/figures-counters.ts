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
}

/** Collects the increase of totals, by minute. */
export function createDeltas(readAll: () => Iterable<readonly [field: string, total: number]>) {
  const collected = new Map<string, number>();
  let waiting: Delta[] = [];
  return {
    collect(): void {
      const fields = new Map<string, number>();
      for (const [field, total] of readAll()) {
        const growth = total - (collected.get(field) ?? 0);
        if (growth === 0) continue;
        fields.set(field, growth);
        collected.set(field, total);
      }
      if (fields.size === 0) return;
      const at = performance.now();
      const last = waiting.at(-1);
      if (last !== undefined && at - last.at < MINUTE_MS) addFields(last.fields, fields);
      else waiting.push({ at, fields });
      const [oldest, next] = waiting;
      if (waiting.length <= MAX_WAITING_MINUTES || oldest === undefined) return;
      waiting.shift();
      if (next !== undefined) addFields(next.fields, oldest.fields);
    },
    take(): Delta[] {
      const taken = waiting;
      waiting = [];
      return taken;
    },
  };
}

function addFields(to: Map<string, number>, from: ReadonlyMap<string, number>): void {
  for (const [field, n] of from) to.set(field, (to.get(field) ?? 0) + n);
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
