import { startInterval } from '@carillon/core/intervals';
import type { DeliveryResult } from '@carillon/presence/replies';
import type { MetricName } from '@carillon/runtime/metric-list';
import type { Metrics } from '@carillon/runtime/metrics';

const REPORT_INTERVAL_MS = 1_000;

export type GatewayMetrics = ReturnType<typeof createGatewayMetrics>;

/** Counts the events of a gateway process. */
export function createGatewayMetrics(metrics: Metrics) {
  const reporters: (() => void)[] = [];

  /** Creates a counter with one label. A label lookup costs as much as a push, so counts are reported once a second. */
  function createCounter<T extends string>(
    name: MetricName<'counter'>,
    label: string,
  ): (value: T) => void {
    const counter = metrics.createCounter(name);
    const counts = new Map<string, { count: number }>();
    /** Consecutive events have the same value nearly always. */
    let last: { value: T; cell: { count: number } } | undefined;
    reporters.push(() => {
      for (const [value, cell] of counts) counter.add(cell.count, { [label]: value });
      for (const cell of counts.values()) cell.count = 0;
    });
    return (value) => {
      if (last?.value !== value) {
        const cell = counts.get(value) ?? { count: 0 };
        counts.set(value, cell);
        last = { value, cell };
      }
      last.cell.count += 1;
    };
  }

  function report(): void {
    for (const reporter of reporters) reporter();
  }

  const stopReporting = startInterval(report, REPORT_INTERVAL_MS);
  return {
    countConnect: createCounter<string>('carillon_gateway_connects_total', 'result'),
    countClose: createCounter<string>('carillon_gateway_closes_total', 'reason'),
    countPublish: createCounter<'live' | 'inbox'>('carillon_gateway_published_total', 'from'),
    countAck: createCounter<'in-time' | 'recorded'>('carillon_gateway_acknowledged_total', 'when'),
    countReply: createCounter<DeliveryResult>('carillon_gateway_answers_total', 'answer'),
    /** Exposes the number of connections, its limit, and the bytes buffered in their sockets. */
    observe(
      connections: {
        size(): number;
        all(): Iterable<{ transport: { writableLength: number } }>;
      },
      maxConnections: number,
    ): void {
      metrics.createGauge('carillon_gateway_connections', connections.size);
      metrics.createGauge('carillon_gateway_max_connections', () => maxConnections);
      metrics.createGauge('carillon_gateway_waiting_bytes', () => {
        let bytes = 0;
        for (const { transport } of connections.all()) bytes += transport.writableLength;
        return bytes;
      });
    },
    stop(): void {
      stopReporting();
      report();
    },
  };
}
