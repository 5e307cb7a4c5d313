import { CHANNELS } from '@carillon/core/channels';
import { FINAL_OUTCOMES, processCounts } from '@carillon/core/process-counts';
import { METRICS, type Metric, type MetricName } from './metric-list.ts';
import type { Metrics, Sample } from './metrics.ts';

/** The service that a process runs, and its release. */
interface ServiceInfo {
  name: string;
  version: string;
}

/** Counts of the packages, by metric. */
const TOTALS: readonly [MetricName<'counter'>, readTotals: () => readonly Sample[]][] = [
  ['carillon_pushes_accepted_total', () => asSample(processCounts.pushesAccepted)],
  ['carillon_recipients_total', listRecipients],
  ['carillon_inbox_rows_written_total', () => asSample(processCounts.inboxRowsWritten)],
  ['carillon_inbox_rows_drained_total', () => asSample(processCounts.inboxRowsAcknowledged)],
  ['carillon_webhook_events_dropped_total', () => asSample(processCounts.webhookEventsDropped)],
  ['carillon_batched_writes_total', () => listBatched('writes')],
  ['carillon_batched_items_total', () => listBatched('items')],
  ['carillon_redis_command_failures_total', () => asSample(processCounts.redisCommandFailures)],
  ['carillon_mongodb_command_failures_total', () => asSample(processCounts.mongodbCommandFailures)],
];

/** Exposes what every service has: its release, and the counts of the packages that it uses. */
export function exposeProcessCounts(
  metrics: Pick<Metrics, 'createGauge' | 'createReadCounter'>,
  service: ServiceInfo,
): void {
  const isExposed = (name: MetricName): boolean => {
    const { services }: Metric = METRICS[name];
    return services.some((one) => one === service.name);
  };
  if (isExposed('carillon_build_info')) {
    const labels = { version: service.version, service: service.name };
    metrics.createGauge('carillon_build_info', () => [{ labels, value: 1 }]);
  }
  for (const [name, readTotals] of TOTALS)
    if (isExposed(name)) metrics.createReadCounter(name, readTotals);
}

function asSample(value: number): Sample[] {
  return [{ labels: {}, value }];
}

function listBatched(field: 'writes' | 'items'): Sample[] {
  return [...processCounts.batched].map(([operation, counts]) => ({
    labels: { operation },
    value: counts[field],
  }));
}

/** Lists all channels and outcomes from the start, because a rate does not see the first value of a series. */
function listRecipients(): Sample[] {
  return CHANNELS.flatMap((channel) => {
    const counts = processCounts.recipients.get(channel);
    return FINAL_OUTCOMES.map((outcome) => ({
      labels: { channel, outcome },
      value: counts?.[outcome] ?? 0,
    }));
  });
}
