import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client';

type Labels = Record<string, string>;

/** The metrics of one process. Label values come from small fixed sets: never a token, key or id. */
export interface Metrics {
  /** A number that only grows. */
  counter(
    name: string,
    help: string,
    labels?: readonly string[],
  ): { add(n: number, labels?: Labels): void };
  /** A number that goes up and down, read when it is asked for. */
  gauge(name: string, help: string, read: () => number | Promise<number>): void;
  /** Durations in seconds. */
  durations(
    name: string,
    help: string,
    labels?: readonly string[],
  ): { observe(seconds: number, labels?: Labels): void };
  /** All metrics in the text format of Prometheus. */
  expose(): Promise<{ contentType: string; text: string }>;
}

/**
 * The library measures the event loop's delay by a timer that wakes the process a hundred times a second, also when
 * nobody uses it. The loop's utilization tells as much.
 */
const NEVER_MS = 2 ** 31 - 1;
const UTILIZATION_EVERY_MS = 1_000;

/** A registry of its own, with the process's default metrics (CPU, memory, event loop). */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({
    register: registry,
    eventLoopMonitoringPrecision: NEVER_MS,
    eventLoopUtilizationTimeout: UTILIZATION_EVERY_MS,
  });
  for (const part of ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99']) {
    registry.removeSingleMetric(`nodejs_eventloop_lag_${part}_seconds`);
  }
  return {
    counter(name, help, labels = []) {
      const counter = new Counter({ name, help, labelNames: [...labels], registers });
      return { add: (n, values) => (values ? counter.inc(values, n) : counter.inc(n)) };
    },
    gauge(name, help, read) {
      new Gauge({
        name,
        help,
        registers,
        async collect() {
          this.set(await read());
        },
      });
    },
    durations(name, help, labels = []) {
      const buckets = [0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60];
      const histogram = new Histogram({ name, help, labelNames: [...labels], buckets, registers });
      return {
        observe: (seconds, values) =>
          values ? histogram.observe(values, seconds) : histogram.observe(seconds),
      };
    },
    async expose() {
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}
