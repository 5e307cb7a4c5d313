import { performance } from 'node:perf_hooks';
import { startInterval } from '@carillon/core/intervals';
import {
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  Registry,
  type Summary,
} from '@prometheus-io/client';
import { createLatencyHistogram, type LatencyHistogram } from './latency-histogram.ts';
import { METRICS, type Metric, type MetricName } from './metric-list.ts';

type Labels = Record<string, string>;

/** Value of a gauge for one combination of labels. */
export interface Sample {
  labels: Labels;
  value: number;
}

/** The metrics of one process. They are described in metric-list.ts. */
export interface Metrics {
  /** A number that only grows. */
  createCounter(name: MetricName<'counter'>): { add(n: number, labels?: Labels): void };
  /** Numbers that only grow and are counted elsewhere; read at each scrape. */
  createReadCounter(name: MetricName<'counter'>, readTotals: () => readonly Sample[]): void;
  /** A number that goes up and down, or one for each combination of labels; read at each scrape. */
  createGauge(name: MetricName<'gauge'>, readValue: () => GaugeValue | Promise<GaugeValue>): void;
  /** Durations in seconds. */
  createHistogram(name: MetricName<'histogram'>): {
    observe(seconds: number, labels: Labels): void;
  };
  /** Durations of which many are known at once. */
  createLatencyHistogram(
    name: MetricName<'histogram'>,
  ): Pick<LatencyHistogram, 'observeMilliseconds' | 'readBuckets'>;
  /** All metrics in the text format of Prometheus. */
  expose(): Promise<{ contentType: string; text: string }>;
}

/** Upper bounds of the buckets of single durations, seconds. */
const DURATION_BOUNDS_SECONDS = [0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60];

type GaugeValue = number | readonly Sample[];

/**
 * Interval that effectively disables the library's timers. The timer of the event loop lag wakes an idle process a
 * hundred times a second, and the event loop utilization gives the same information. The timer of the utilization wakes
 * the process beside its other periodic tasks.
 */
const DISABLED_INTERVAL_MS = 2 ** 31 - 1;
/** Interval between two measurements of the event loop's utilization. */
const UTILIZATION_INTERVAL_MS = 1_000;

/** Creates the metrics of a process, with the default ones (CPU, memory, event loop). */
export function createMetrics(): Metrics {
  const registry = createRegistry();
  const latencies: LatencyHistogram[] = [];
  const describe = (name: MetricName) => {
    const { help, labels }: Metric = METRICS[name];
    return { name, help, labelNames: [...labels], registers: [registry] };
  };
  return {
    createCounter(name) {
      const counter = new Counter(describe(name));
      return { add: (n, labels) => (labels ? counter.inc(labels, n) : counter.inc(n)) };
    },
    createReadCounter(name, readTotals) {
      new Counter({
        ...describe(name),
        collect() {
          this.reset();
          for (const { labels, value } of readTotals()) this.inc(labels, value);
        },
      });
    },
    createGauge(name, readValue) {
      new Gauge({
        ...describe(name),
        async collect() {
          const value = await readValue();
          if (typeof value === 'number') return this.set(value);
          this.reset();
          for (const sample of value) this.set(sample.labels, sample.value);
        },
      });
    },
    createHistogram(name) {
      const histogram = new Histogram({ ...describe(name), buckets: DURATION_BOUNDS_SECONDS });
      return { observe: (seconds, labels) => histogram.observe(labels, seconds) };
    },
    createLatencyHistogram(name) {
      const { help, labelNames } = describe(name);
      const histogram = createLatencyHistogram(name, help, labelNames[0] ?? '');
      latencies.push(histogram);
      return histogram;
    },
    async expose() {
      const texts = [await registry.metrics(), ...latencies.map((one) => one.expose())];
      return { contentType: registry.contentType, text: texts.join('\n') };
    },
  };
}

function createRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({
    register: registry,
    eventLoopMonitoringPrecision: DISABLED_INTERVAL_MS,
    eventLoopUtilizationTimeout: DISABLED_INTERVAL_MS,
  });
  observeUtilization(registry);
  for (const statistic of ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99']) {
    registry.removeSingleMetric(`nodejs_eventloop_lag_${statistic}_seconds`);
  }
  return registry;
}

/** Observes the event loop utilization once for each second, as the library does, also for those in which the loop was blocked. */
function observeUtilization(registry: Registry): void {
  const metrics = ['histogram', 'summary'].map(
    (kind) =>
      registry.getSingleMetric(`nodejs_eventloop_utilization_${kind}`) as Histogram | Summary,
  );
  let [last, lastAt] = [performance.eventLoopUtilization(), performance.now()];
  startInterval(() => {
    const [current, now] = [performance.eventLoopUtilization(), performance.now()];
    const { utilization } = performance.eventLoopUtilization(current, last);
    const seconds = Math.round((now - lastAt) / UTILIZATION_INTERVAL_MS);
    for (let second = 0; second < seconds; second += 1)
      for (const metric of metrics) metric.observe(utilization);
    [last, lastAt] = [current, now];
  }, UTILIZATION_INTERVAL_MS);
}
