import type { Redis } from '@carillon/presence/redis';
import { readMemory, usedShare } from '@carillon/presence/redis-memory';
import type { createUnservedQueues } from '@carillon/queue/unserved-queues';
import { type ChannelBacklog, measureChannels } from '@carillon/reports/backlog';
import { createReports } from '@carillon/reports/reports';
import type { MetricName } from '@carillon/runtime/metric-list';
import type { Metrics } from '@carillon/runtime/metrics';

/** Number of apps in the metrics, those with the most pending batches: an app is a value of a label. */
const MAX_APPS = 10;
/** Maximum age of the values, whatever the rate of the scrapes. */
const MAX_AGE_MS = 5_000;

/**
 * Exports the figures for autoscaling and alerts. A scrape reads them, at most every 5 s; a scheduler that is not
 * scraped counts nothing. Each scheduler counts everything; take the highest value of all. While MongoDB or Redis is
 * unavailable the values are absent, which an autoscaler treats as no change.
 *
 * @returns functions that read the work by channel and by app from the same caches; undefined if that fails
 */
export function exportBacklog(
  metrics: Metrics,
  {
    store,
    unservedQueues,
    listActiveApps,
    onError,
  }: {
    store: Parameters<typeof createReports>[0];
    unservedQueues: Pick<ReturnType<typeof createUnservedQueues>, 'readAges'>;
    /** Lists the apps that have accepted pushes in the last hour. */
    listActiveApps: () => Promise<readonly string[]>;
    onError: (error: unknown) => void;
  },
) {
  const { backlog, appBacklog } = createReports(store);
  const readChannels = createCache(() => measureChannels(backlog), onError);
  const readApps = createCache(() => appBacklog.measure(listActiveApps), onError);
  const readQueues = createCache(unservedQueues.readAges, onError);

  function exportPerChannel(
    name: MetricName<'gauge'>,
    pick: (values: ChannelBacklog) => number,
  ): void {
    metrics.createGauge(name, async () => {
      const channels = (await readChannels()) ?? [];
      return channels.map(({ channel, ...values }) => ({
        labels: { channel },
        value: pick(values),
      }));
    });
  }
  exportPerChannel('carillon_pending_batches', ({ pending }) => pending);
  exportPerChannel('carillon_oldest_pending_batch_seconds', ({ oldestMs }) => oldestMs / 1_000);
  exportPerChannel('carillon_deferred_batches', ({ deferred }) => deferred);
  metrics.createGauge('carillon_app_pending_batches', async () =>
    ((await readApps()) ?? [])
      .slice(0, MAX_APPS)
      .map(({ app, pending }) => ({ labels: { app }, value: pending })),
  );
  metrics.createGauge('carillon_unserved_queue_age_seconds', async () =>
    Object.entries((await readQueues()) ?? {}).map(([queue, ageMs]) => ({
      labels: { queue },
      value: ageMs / 1_000,
    })),
  );
  return { channels: readChannels, apps: readApps };
}

/** Exports how full the Redis of the queues is. While it is unavailable the value is absent. */
export function exportRedisMemory(
  metrics: Metrics,
  redis: Redis,
  onError: (error: unknown) => void,
): void {
  const read = createCache(() => readMemory(redis), onError);
  metrics.createGauge('carillon_redis_memory_used_ratio', async () => {
    const servers = await read();
    if (servers === undefined) return [];
    return [{ labels: {}, value: Math.max(0, ...servers.map(usedShare)) }];
  });
}

/** Keeps a result, or that there was none, for 5 s after its read has ended; calls during the read share it. */
function createCache<T>(
  read: () => Promise<T>,
  onError: (error: unknown) => void,
): () => Promise<T | undefined> {
  let readAt = Number.NEGATIVE_INFINITY;
  let result: Promise<T | undefined> = Promise.resolve(undefined);
  return () => {
    if (performance.now() - readAt >= MAX_AGE_MS) {
      readAt = Number.POSITIVE_INFINITY;
      result = read()
        .catch((error: unknown) => void onError(error))
        .finally(() => {
          readAt = performance.now();
        });
    }
    return result;
  };
}
