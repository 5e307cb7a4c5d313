import { createDispatcher } from '@carillon/presence/dispatcher';
import { startFigures } from '@carillon/presence/figures-writer';
import { createPresenceReader } from '@carillon/presence/presence-reader';
import { connectRedis, pingRedis } from '@carillon/presence/redis';
import { createProducers, type Producers } from '@carillon/queue/producers';
import type { QueueWorker } from '@carillon/queue/workers';
import { presenceRedis, queueRedis } from '@carillon/runtime/env';
import { runService, type ServiceContext } from '@carillon/runtime/service';
import { connectStore, type Store } from '@carillon/store/store';
import { createApnsWithMqtt } from './channels/mqtt/apns-with-mqtt.ts';
import { createDeliverMqtt } from './channels/mqtt/deliver-mqtt.ts';
import { createAppSettings } from './deliver/app-settings.ts';
import { type DeliveryResources, deliverBatch } from './deliver/deliver-batch.ts';
import { createIsolation } from './deliver/isolation.ts';
import { createLeases } from './deliver/send-gate.ts';
import { environment } from './environment.ts';
import { fanOutStep } from './fan-out/fan-out.ts';
import { openProviders } from './open-providers.ts';
import { openWebhooks } from './open-webhooks.ts';
import { providerChannelsOf } from './queues.ts';
import { startWorkers } from './workers.ts';

/** The process may have an undefined state then; its batches must lapse, so that a batch that is the cause is found. */
const EXITS_ON_ERROR = () => ({ exitsOnError: true });

await runService(
  'delivery-worker',
  environment,
  async (context, env) => {
    const { log, metrics, release, tracer, waitFor } = context;
    const onError = (err: unknown): void => log.warn({ err }, 'a step failed and will be retried');
    const store = await waitFor('MongoDB', () =>
      connectStore({ uri: env.MONGODB_URI, appName: 'carillon-delivery-worker', tracer }),
    );
    release('mongodb', store.close);
    await waitFor('the schema of MongoDB', store.schema.assertUsable);
    store.suspensions.startRefreshing(onError);
    // Devices that their provider reports as gone are events.
    await waitFor('the webhooks in MongoDB', () => store.webhooks.startRefreshing(onError));

    const latencies = metrics.createLatencyHistogram('carillon_delivery_seconds');
    release('figures', startFigures(queueRedis(env), { log, ...latencies }).stop);
    const producers = createProducers(queueRedis(env), onError);
    release('producers', producers.close);
    await waitFor('Redis', () => Promise.all([queueRedis(env), presenceRedis(env)].map(pingRedis)));
    const presence = await connectRedis(presenceRedis(env));
    release('presence', () => presence.disconnect());
    const dispatcher = await createDispatcher(presenceRedis(env), tracer);
    release('dispatcher', dispatcher.close);
    const leases = createLeases(store.batchTable, dispatcher.replyStream, onError);
    release('leases', leases.stop);

    const presenceReader = createPresenceReader(presence);
    const getAppSettings = createAppSettings(store);
    const providers = openProviders(env, providerChannelsOf(env.QUEUES), {
      store,
      log,
      metrics,
      release,
      onError,
    });
    const mqtt = createDeliverMqtt({ store, presenceReader, dispatcher });
    const apnsResources = { getAppSettings, presenceReader, dispatcher, onError };
    const apns = providers.apns && createApnsWithMqtt(apnsResources, providers.apns);

    const isolation = createIsolation();
    const retentionMs = env.RETENTION_SECONDS * 1_000;
    let isStopping = false;
    const delivery: DeliveryResources = {
      store,
      producers,
      dispatcher,
      leases,
      channels: { ...providers, mqtt, ...(apns && { apns }) },
      getAppSettings,
      retentionMs,
      tracer,
      isolation,
      isStopping: () => isStopping,
      observeLatencies: latencies.observeMilliseconds,
    };
    const reportToWebhook = await waitFor('MongoDB', () =>
      openWebhooks(env, context, store, delivery.isStopping),
    );
    const workers = startWorkers(
      { redis: queueRedis(env), onError },
      {
        fanOut: (push) =>
          isolation.runTogether(() => fanOutStep({ store, producers, tracer }, push)),
        deliver: createDeliver(context, delivery),
        checkCompletion: (push) =>
          isolation.runTogether(() => store.pushCompletion.completeIfDone(push, retentionMs)),
        recordActivity: store.devices.touch,
        reportToWebhook:
          reportToWebhook && ((webhook) => isolation.runTogether(() => reportToWebhook(webhook))),
        recordKeyUses: store.keys.markUsed,
        tracer,
      },
      env.QUEUES,
      env.CONCURRENCY,
    );
    release('workers', async () => {
      isStopping = true;
      await Promise.all(workers.map(({ stop }) => stop()));
    });
    watchQueues(context, workers, producers, store);
  },
  EXITS_ON_ERROR,
);

/** Creates the function that delivers a batch, counts and logs its end, and returns the context of its trace. */
function createDeliver(
  { log, metrics }: Pick<ServiceContext, 'log' | 'metrics'>,
  delivery: DeliveryResources,
): (id: string) => Promise<string | undefined> {
  const batchesCounter = metrics.createCounter('carillon_works_total');
  return async (id) => {
    const startedAt = performance.now();
    const { trace, ...result } = await deliverBatch(delivery, id);
    batchesCounter.add(1, { end: result.end });
    log.info({ ...result, ms: Math.round(performance.now() - startedAt) }, 'batch');
    return trace;
  };
}

/** Watches the progress of each queue, which is expected while jobs are due and MongoDB responds. */
function watchQueues(
  { watch }: Pick<ServiceContext, 'watch'>,
  workers: readonly QueueWorker[],
  producers: Producers,
  store: Pick<Store, 'ping'>,
): void {
  for (const { queue, lastProgressAt } of workers) {
    watch({
      name: `queue ${queue}`,
      lastProgressAt,
      async isExpected() {
        if ((await producers.countDue(queue)) === 0) return false;
        await store.ping();
        return true;
      },
    });
  }
}
