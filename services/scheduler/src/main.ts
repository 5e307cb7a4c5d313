import { startFigures } from '@carillon/presence/figures-writer';
import { createPresenceReader } from '@carillon/presence/presence-reader';
import { connectPresence } from '@carillon/presence/presence-server';
import { connectRedis, pingRedis } from '@carillon/presence/redis';
import { jobSchemas } from '@carillon/queue/jobs';
import { createProducers, type Producers } from '@carillon/queue/producers';
import { startTicks, type Task, type Ticks } from '@carillon/queue/ticks';
import { createUnservedQueues } from '@carillon/queue/unserved-queues';
import { createWorker, type QueueWorker } from '@carillon/queue/workers';
import { presenceRedis, queueRedis } from '@carillon/runtime/env';
import type { WatchedLoop } from '@carillon/runtime/progress';
import { runService } from '@carillon/runtime/service';
import { connectStore, type Store } from '@carillon/store/store';
import { createWebhookStore } from '@carillon/webhooks/webhook-store';
import { exportBacklog, exportRedisMemory } from './backlog-metrics.ts';
import { createClean } from './clean.ts';
import { environment } from './environment.ts';
import { exportIdleDevices } from './idle-devices.ts';
import { createPrune } from './prune.ts';
import { reconcile } from './reconcile.ts';
import { createWebhookTick, exportWebhooks } from './webhooks.ts';

/** Interval of each task. */
const TICK_INTERVALS_MS = { reconcile: 1_000, clean: 5_000, prune: 5_000 };
/** A check for due pushes that takes long must not delay the next one. */
const MAX_CONCURRENT_CHECKS = 2;

await runService(
  'scheduler',
  environment,
  async ({ log, metrics, release, tracer, waitFor, watch }, env) => {
    const onError = (err: unknown): void =>
      log.warn({ err }, 'a step failed; the next tick retries it');
    const store = await waitFor('MongoDB', () =>
      connectStore({ uri: env.MONGODB_URI, appName: 'carillon-scheduler' }),
    );
    release('mongodb', store.close);
    await waitFor('the schema of MongoDB', store.schema.assertUsable);
    await waitFor('the paused apps in MongoDB', () => store.suspensions.startRefreshing(onError));
    await waitFor('the webhooks in MongoDB', () => store.knownWebhooks.startRefreshing(onError));
    await waitFor('Redis', () => pingRedis(queueRedis(env)));
    const figures = startFigures(queueRedis(env), { log });
    release('figures', figures.stop);
    const producers = createProducers(queueRedis(env), onError);
    release('producers', producers.close);

    const unservedQueues = createUnservedQueues(queueRedis(env), onError);
    release('unserved queues', unservedQueues.close);
    const { listActiveApps } = figures;
    const backlog = { store, unservedQueues, listActiveApps, onError };
    figures.reportBacklog(exportBacklog(metrics, backlog));
    const queueConnection = await connectRedis(queueRedis(env));
    release('queue', () => queueConnection.disconnect());
    exportRedisMemory(metrics, queueConnection, onError);

    const webhookStore = createWebhookStore(store);
    const reconciledCounter = metrics.createCounter('carillon_reconciled_total');
    exportWebhooks(metrics, webhookStore);
    const clean = createClean(store, webhookStore, producers);
    const tickWebhooks = createWebhookTick(store.knownWebhooks, webhookStore, producers);
    const presence = await connectPresence(presenceRedis(env));
    release('presence', presence.close);
    const { areOnline } = createPresenceReader(presence);
    const prune = createPrune(store, producers, areOnline, (pruned) => log.info(pruned, 'prune'));
    const countIdle = exportIdleDevices(metrics, store, onError);
    // The count never rejects, and comes after a failed prune as well.
    const pruneAndCount = () => prune().finally(countIdle);
    async function tick(): Promise<Record<string, number>> {
      const [found, webhooks] = await Promise.all([
        reconcile(store, producers, tracer),
        tickWebhooks(),
      ]);
      return { ...found, webhooks };
    }
    async function runTask(task: Task, run: () => Promise<object>): Promise<void> {
      const result: [string, number][] = Object.entries(await run());
      const counts = result.filter(([, count]) => count > 0);
      for (const [what, count] of counts) reconciledCounter.add(count, { what });
      if (counts.length > 0) log.info(Object.fromEntries(counts), task);
    }

    const settings = { redis: queueRedis(env), onError };
    // Its jobs are checks at the due times of pushes.
    const worker = createWorker(
      settings,
      'maintenance',
      jobSchemas.maintenance,
      ({ task }) => runTask(task, () => reconcile(store, producers, tracer)),
      MAX_CONCURRENT_CHECKS,
    );
    release('worker', worker.stop);
    const ticks = startTicks(settings, TICK_INTERVALS_MS, (task) =>
      runTask(task, { clean, prune: pruneAndCount, reconcile: tick }[task]),
    );
    release('ticks', ticks.stop);
    watchLoops(watch, { store, producers, worker, ticks });
  },
);

function watchLoops(
  watch: (loop: WatchedLoop) => void,
  {
    store,
    producers,
    worker,
    ticks,
  }: {
    store: Pick<Store, 'ping'>;
    producers: Pick<Producers, 'countDue'>;
    worker: Pick<QueueWorker, 'lastProgressAt'>;
    ticks: Pick<Ticks, 'lastProgressAt'>;
  },
): void {
  watch({
    name: 'queue maintenance',
    lastProgressAt: worker.lastProgressAt,
    async isExpected() {
      if ((await producers.countDue('maintenance')) === 0) return false;
      await store.ping();
      return true;
    },
  });
  watch({
    name: 'ticks',
    lastProgressAt: ticks.lastProgressAt,
    // Rejects if Redis fails, or takes no writes.
    isExpected: () => producers.countDue('maintenance').then(() => true),
  });
}
