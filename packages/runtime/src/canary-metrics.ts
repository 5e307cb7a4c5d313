import { Counter, Gauge, Histogram, Registry } from '@prometheus-io/client';

const BUCKETS_SECONDS = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60];

/** Creates the metrics of `carillon canary`. They belong to no service, so they are not among those of a process. */
export function createCanaryMetrics() {
  const registry = new Registry();
  const registers = [registry];
  const durations = new Histogram({
    name: 'carillon_canary_delivery_seconds',
    help: 'Time from the request of POST /push to the arrival of a push of the canary',
    buckets: BUCKETS_SECONDS,
    registers,
  });
  const failures = new Counter({
    name: 'carillon_canary_failures_total',
    help: 'Pushes of the canary that failed or came too late',
    registers,
  });
  const lastSuccess = new Gauge({
    name: 'carillon_canary_last_success_timestamp_seconds',
    help: 'Unix time of the last success; before the first, of the start',
    registers,
  });
  lastSuccess.setToCurrentTime();
  return {
    recordSuccess(seconds: number): void {
      durations.observe(seconds);
      lastSuccess.setToCurrentTime();
    },
    recordFailure: () => failures.inc(1),
    /** All metrics in the text format of Prometheus. */
    async expose(): Promise<{ contentType: string; text: string }> {
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}
