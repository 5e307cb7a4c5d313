import { formatBuckets } from './latency-histogram.ts';

/** Upper bounds of the buckets, seconds. */
const BOUNDS_SECONDS = [0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60];

interface Series {
  /** Durations of each bucket alone; the last has no bound. */
  counts: number[];
  sum: number;
}

/**
 * Creates a histogram of single durations. The library's validates the labels of each duration and finds its bucket by
 * the text of the bound, which takes a microsecond of each request.
 *
 * @param labelNames in the order of the labels in the text
 */
export function createDurationHistogram(name: string, help: string, labelNames: readonly string[]) {
  const seriesByLabels = new Map<string, Series>();

  function findOrCreateSeries(labels: string): Series {
    const existing = seriesByLabels.get(labels);
    if (existing !== undefined) return existing;
    const series = { counts: Array<number>(BOUNDS_SECONDS.length + 1).fill(0), sum: 0 };
    seriesByLabels.set(labels, series);
    return series;
  }

  return {
    /** Adds a duration. @param labels a value of a fixed set for each name */
    observe(seconds: number, labels: Readonly<Record<string, string>>): void {
      let text = '';
      for (const label of labelNames)
        text += `${text === '' ? '' : ','}${label}="${labels[label] ?? ''}"`;
      const series = findOrCreateSeries(text);
      let bucket = 0;
      while (bucket < BOUNDS_SECONDS.length && seconds > (BOUNDS_SECONDS[bucket] as number))
        bucket += 1;
      series.counts[bucket] = (series.counts[bucket] ?? 0) + 1;
      series.sum += seconds;
    },
    /** Returns the text of the histogram in the format of Prometheus. */
    expose(): string {
      const lines = [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`];
      for (const [labels, { counts, sum }] of seriesByLabels)
        lines.push(...formatBuckets({ name, labels, boundsSeconds: BOUNDS_SECONDS, counts, sum }));
      return `${lines.join('\n')}\n`;
    },
  };
}
