/** Upper bounds of the buckets, seconds. */
const BOUNDS_SECONDS = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300];
const BOUNDS_MS = BOUNDS_SECONDS.map((seconds) => seconds * 1_000);
/** Upper bounds of the buckets, milliseconds; the last is Infinity. */
export const LATENCY_BOUNDS_MS = [...BOUNDS_MS, Number.POSITIVE_INFINITY];

/** Durations of one bucket alone. */
export interface LatencyBucket {
  /** Upper bound in milliseconds; Infinity for the last one. */
  boundMs: number;
  count: number;
}

interface Series {
  /** Durations of each bucket alone; the last has no bound. */
  counts: number[];
  sumMs: number;
}

/** A histogram with one label that takes many durations in one call. */
export type LatencyHistogram = ReturnType<typeof createLatencyHistogram>;

/**
 * Creates a histogram of durations. The library's takes one call for each duration, with a lookup of the labels, which
 * would be one for each recipient of a push.
 */
export function createLatencyHistogram(name: string, help: string, label: string) {
  const seriesByValue = new Map<string, Series>();

  function findOrCreateSeries(value: string): Series {
    const existing = seriesByValue.get(value);
    if (existing !== undefined) return existing;
    const series = { counts: LATENCY_BOUNDS_MS.map(() => 0), sumMs: 0 };
    seriesByValue.set(value, series);
    return series;
  }

  return {
    /**
     * Adds durations in milliseconds; a 0 is no duration and is left out.
     *
     * @param value of the label, of a fixed set
     */
    observeMilliseconds(value: string, durationsMs: Uint32Array): void {
      const series = findOrCreateSeries(value);
      const { counts } = series;
      for (const ms of durationsMs) {
        if (ms === 0) continue;
        let bucket = 0;
        while (bucket < BOUNDS_MS.length && ms > (BOUNDS_MS[bucket] as number)) bucket += 1;
        counts[bucket] = (counts[bucket] ?? 0) + 1;
        series.sumMs += ms;
      }
    },
    /** Returns the durations so far by bucket, over all values of the label. */
    readBuckets(): LatencyBucket[] {
      const all = [...seriesByValue.values()];
      return LATENCY_BOUNDS_MS.map((boundMs, bucket) => ({
        boundMs,
        count: all.reduce((sum, { counts }) => sum + (counts[bucket] ?? 0), 0),
      }));
    },
    /** Returns the text of the histogram in the format of Prometheus. */
    expose(): string {
      const lines = [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`];
      for (const [value, series] of seriesByValue)
        lines.push(...formatSeries(name, `${label}="${value}"`, series));
      return `${lines.join('\n')}\n`;
    },
  };
}

/** Returns the lines of one series in the format of Prometheus. */
function formatSeries(name: string, labels: string, { counts, sumMs }: Series): string[] {
  let total = 0;
  const buckets = counts.map((count, index) => {
    total += count;
    return `${name}_bucket{le="${BOUNDS_SECONDS[index] ?? '+Inf'}",${labels}} ${total}`;
  });
  return [
    ...buckets,
    `${name}_sum{${labels}} ${sumMs / 1_000}`,
    `${name}_count{${labels}} ${total}`,
  ];
}
