import { createAccept } from '@carillon/accept/admit-push';
import { createDispatcher } from '@carillon/presence/dispatcher';
import { type Figures, startFigures } from '@carillon/presence/figures-writer';
import { createPresenceReader, type PresenceReader } from '@carillon/presence/presence-reader';
import { connectPresence } from '@carillon/presence/presence-server';
import { createRateCounter, type RateCounter } from '@carillon/presence/rate-counter';
import { pingRedis } from '@carillon/presence/redis';
import { createProducers, type Producers } from '@carillon/queue/producers';
import type { QueueWorker } from '@carillon/queue/workers';
import { presenceRedis, queueRedis } from '@carillon/runtime/env';
import { runService, type ServiceContext } from '@carillon/runtime/service';
import { connectStore, type Store } from '@carillon/store/store';
import type { z } from 'zod';
import { type ApnsWithMqttResources, createApnsWithMqtt } from './channels/mqtt/apns-with-mqtt.ts';
import { createDeliverMqtt, type MqttResources } from './channels/mqtt/deliver-mqtt.ts';
import { createAppSettings } from './deliver/app-settings.ts';
import { type DeliveryResources, deliverBatch } from './deliver/deliver-batch.ts';
import { createSemaphore } from './deliver/semaphore.ts';
import { createLeases } from './deliver/send-gate.ts';
import { environment } from './environment.ts';
import { fanOutStep } from './fan-out/fan-out.ts';
import { openProviders } from './open-providers.ts';
import { openWebhooks } from './open-webhooks.ts';
import { providerChannelsOf } from './queues.ts';
import { redrivePage } from './redrive/redrive-page.ts';
import { type Processors, startWorkers } from './workers.ts';

type Environment = z.infer<typeof environment>;

/** The process may have an undefined state then; its batches must lapse, so that a batch that is the cause is found. */
const EXITS_ON_ERROR = () => ({ exitsOnError: true });

await runService('delivery-worker', environment, start, EXITS_ON_ERROR);

async function start(context: ServiceContext, env: Environment): Promise<void> {
  const { log, metrics, release, tracer } = context;
  const onError = (err: unknown): void => log.warn({ err }, 'a step failed and will be retried');
  const store = await openStore(context, env, onError);
  const latencies = metrics.createLatencyHistogram('carillon_delivery_seconds');
  const figures = startFigures(queueRedis(env), { log, ...latencies });
  release('figures', figures.stop);
  const producers = createProducers(queueRedis(env), onError);
  release('producers', producers.close);
  const { rateCounter, ...gateways } = await connectGateways(context, env, onError);
  const { dispatcher } = gateways;
  const leases = createLeases(store.batchTable, dispatcher.replyStream, onError);
  release('leases', leases.stop);

  const getAppSettings = createAppSettings(store);
  let isStopping = false;
  const delivery: DeliveryResources = {
    store,
    producers,
    dispatcher,
    leases,
    channels: openChannels(context, env, { ...gateways, figures, store, getAppSettings, onError }),
    getAppSettings,
    retentionMs: env.RETENTION_SECONDS * 1_000,
    tracer,
    suspectedTurn: { isTaken: false },
    isStopping: () => isStopping,
    onError,
    observeLatencies: latencies.observeMilliseconds,
  };
  const processors = await createProcessors(context, env, delivery, { rateCounter, ...gateways });
  const redis = queueRedis(env);
  const workers = startWorkers({ redis, onError }, processors, env.QUEUES, env.CONCURRENCY);
  release('workers', async () => {
    isStopping = true;
    await Promise.all(workers.map(({ stop }) => stop()));
  });
  watchQueues(context, workers, producers, store);
}

/** Connects to MongoDB and waits for the schema. */
async function openStore(
  { release, tracer, waitFor }: ServiceContext,
  { MONGODB_URI: uri }: Environment,
  onError: (error: unknown) => void,
): Promise<Store> {
  const store = await waitFor('MongoDB', () =>
    connectStore({ uri, appName: 'carillon-delivery-worker', tracer }),
  );
  release('mongodb', store.close);
  await waitFor('the schema of MongoDB', store.schema.assertUsable);
  await waitFor('the paused apps in MongoDB', () => store.suspensions.startRefreshing(onError));
  // Devices that their provider reports as gone are events.
  await waitFor('the webhooks in MongoDB', () => store.knownWebhooks.startRefreshing(onError));
  return store;
}

/** Connects to Redis, through which devices are found, pushes dispatched, and requests of accounts counted. */
async function connectGateways(
  { release, tracer, waitFor }: ServiceContext,
  env: Environment,
  onError: (error: unknown) => void,
) {
  await waitFor('Redis', () =>
    Promise.all([pingRedis(queueRedis(env)), pingRedis(presenceRedis(env))]),
  );
  const server = await connectPresence(presenceRedis(env));
  release('presence', server.close);
  const dispatcher = await createDispatcher(server, tracer);
  release('dispatcher', dispatcher.close);
  return {
    dispatcher,
    presenceReader: createPresenceReader(server),
    rateCounter: createRateCounter(server, onError),
  };
}

/** Creates the deliveries over the channels whose queues the process takes, and over MQTT. */
function openChannels(
  { log, metrics, release }: ServiceContext,
  env: Environment,
  resources: ApnsWithMqttResources & MqttResources & { store: Store; figures: Figures },
): DeliveryResources['channels'] {
  const { store, figures, getAppSettings, onError } = resources;
  const providers = openProviders(env, providerChannelsOf(env.QUEUES), {
    store,
    figures,
    getAppSettings,
    log,
    metrics,
    release,
    onError,
  });
  const apns = providers.apns && createApnsWithMqtt(resources, providers.apns);
  return { ...providers, mqtt: createDeliverMqtt(resources), ...(apns && { apns }) };
}

async function createProcessors(
  context: ServiceContext,
  env: Environment,
  delivery: DeliveryResources,
  { rateCounter, presenceReader }: { rateCounter: RateCounter; presenceReader: PresenceReader },
): Promise<Processors> {
  const { store, producers, getAppSettings, tracer, retentionMs, isStopping, onError } = delivery;
  const reportToWebhook = await context.waitFor('MongoDB', () =>
    openWebhooks(env, context, store, isStopping),
  );
  const maxOpenBatches = env.OPEN_BATCHES_PER_PUSH;
  const fanOut = { store, producers, getAppSettings, presenceReader, tracer, maxOpenBatches };
  const redriving = {
    ...{ store, producers, isStopping, onError },
    accept: createAccept(store, producers, rateCounter),
    largePushes: createSemaphore(1),
  };
  return {
    fanOut: (push) => fanOutStep(fanOut, push),
    deliver: createDeliver(context, delivery),
    checkCompletion: (push) => store.pushCompletion.completeIfDone(push, retentionMs),
    recordActivity: store.devices.touch,
    reportToWebhook,
    redrive: (page) => redrivePage(redriving, page),
    recordKeyUses: store.keys.markUsed,
    tracer,
  };
}

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
