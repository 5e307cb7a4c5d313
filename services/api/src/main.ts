import { createDisconnect } from '@carillon/presence/disconnect';
import { startFigures } from '@carillon/presence/figures-writer';
import { createPresenceReader } from '@carillon/presence/presence-reader';
import { connectPresence, type PresenceServer } from '@carillon/presence/presence-server';
import { createRateCounter } from '@carillon/presence/rate-counter';
import { createSlots } from '@carillon/presence/slots';
import { createProducers, type Producers } from '@carillon/queue/producers';
import { createReports, type Reports } from '@carillon/reports/reports';
import { presenceRedis, queueRedis } from '@carillon/runtime/env';
import { createProxyWarner, type ProxyWarner } from '@carillon/runtime/proxy-warner';
import { createBodyReader } from '@carillon/runtime/read-body';
import { runService, type ServiceContext } from '@carillon/runtime/service';
import { createClearDevices } from '@carillon/store/delete-device';
import {
  connectStore,
  DEVICE_CONNECTIONS,
  KEPT_CONNECTIONS,
  type Store,
} from '@carillon/store/store';
import { createWebhookStore, type WebhookStore } from '@carillon/webhooks/webhook-store';
import type { z } from 'zod';
import packageJson from '../package.json' with { type: 'json' };
import { createAreOnline } from './devices/get-presence.ts';
import { deviceRoutes } from './devices/routes.ts';
import { environment } from './environment.ts';
import { EXPORTS_PER_APP, exportRoutes } from './export/routes.ts';
import { createAuthenticator } from './http/authenticate.ts';
import { createProxyDetector } from './http/detect-proxy.ts';
import { createKeyUseRecorder } from './http/key-uses.ts';
import { createRateLimits } from './http/rate-limits.ts';
import { createRouting } from './http/routing.ts';
import { type RouteRegistrar, serve } from './http/server.ts';
import { outcomesRoutes } from './outcomes/routes.ts';
import { pushRoutes } from './push/routes.ts';
import { referenceRoutes } from './reference/routes.ts';
import { createOutageWatch } from './registration/outage-watch.ts';
import { registrationRoutes } from './registration/routes.ts';
import { topicRoutes } from './topics/routes.ts';
import { webhookRoutes } from './webhooks/routes.ts';

const VERSION = packageJson.version;
const MEGABYTE = 1_024 * 1_024;

/** Timeout of a database operation, so that it does not block those behind it. A response has a deadline of its own. */
const DATABASE_TIMEOUT_MS = 2_500;
/**
 * Timeout of the wait for a connection of the pool, which bounds the queue. It is long, because after a freeze of the
 * process a short one would fail all waiting operations at once.
 */
const CHECKOUT_TIMEOUT_MS = 10_000;

await runService('api', environment, start, ({ STOP_DELAY_SECONDS }) => ({
  delayMs: STOP_DELAY_SECONDS * 1_000,
}));

type Environment = z.infer<typeof environment>;

async function start(context: ServiceContext, env: Environment): Promise<void> {
  const { log, release } = context;
  const onRedisError = (err: Error): void =>
    log.warn({ err }, 'Redis failed; the reconciler enqueues lost jobs, limits count per process');

  const store = await openStore(context, env);
  const deviceStore = await connectToMongodb(context, env, {
    keptConnections: DEVICE_CONNECTIONS,
    shared: store,
  });
  release('figures', startFigures(queueRedis(env), { log }).stop);
  // It does not wait for Redis, without which it accepts pushes too (guarantee G14).
  const producers = createProducers(queueRedis(env), onRedisError);
  release('producers', producers.close);
  const presenceServer = await connectPresence(presenceRedis(env));
  release('presence', presenceServer.close);

  const proxyWarner = createProxyWarner({ log, record: store.proxyWarnings.record });
  const resources = { store, deviceStore, producers, presenceServer, proxyWarner, onRedisError };
  const guarded = createGuardedRouting(context, env, resources);
  const exporting = new AbortController();
  const features = createFeatures(context, env, resources, guarded, exporting.signal);
  const server = await serve(env.API_LISTEN, guarded.routing, features, {
    proxyHops: env.TRUST_PROXY,
    keepAliveMs: env.KEEP_ALIVE_SECONDS * 1_000,
    onRequest: createProxyDetector(env.TRUST_PROXY, proxyWarner),
  });
  release('http', server.stop);
  // A slow client would hold the process until its deadline.
  release('exports', () => exporting.abort());
}

interface Resources {
  store: Store & Reports & WebhookStore;
  /** For the requests of devices: its connections serve no others, so slow requests of tenants delay no device. */
  deviceStore: Store;
  producers: Producers;
  presenceServer: PresenceServer;
  proxyWarner: ProxyWarner;
  onRedisError(error: Error): void;
}

type GuardedRouting = ReturnType<typeof createGuardedRouting>;

/** Creates the routing with its authentication, limits and counts. */
function createGuardedRouting(
  { log, metrics, release, trackActivity }: ServiceContext,
  env: Environment,
  { store, deviceStore, producers, presenceServer, proxyWarner, onRedisError }: Resources,
) {
  const hasAddressLimits = env.ADDRESS_LIMITS === 'on';
  const rateLimits = createRateLimits(
    createRateCounter(presenceServer, onRedisError),
    hasAddressLimits,
    (address) => proxyWarner.warnIfPrivate('api-limited-private-address', address),
  );
  const keyUses = createKeyUseRecorder(producers, store.clock);
  release('key uses', keyUses.stop);
  // Tenants can occupy only the connections of one, devices only those of the other.
  const outageWatch = createOutageWatch(() => Promise.any([store.ping(), deviceStore.ping()]));
  const routing = createRouting({
    log,
    metrics,
    authenticate: createAuthenticator(store.keys, env.API_KEY_PEPPER, rateLimits, keyUses),
    countRequest: rateLimits.countRequest,
    readBody: createBodyReader({ budgetBytes: env.BODY_MEMORY_MB * MEGABYTE, hasAddressLimits }),
    onUnexpectedError: outageWatch.noteUnexpectedError,
    onSlowRequest: outageWatch.noteSlowRequest,
    onResponse: trackActivity('response'),
  });
  return { routing, rateLimits, outageWatch };
}

function createFeatures(
  { log, tracer }: ServiceContext,
  env: Environment,
  { store, deviceStore, producers, presenceServer, onRedisError }: Resources,
  { routing, rateLimits, outageWatch }: GuardedRouting,
  exporting: AbortSignal,
): RouteRegistrar[] {
  const retentionMs = env.RETENTION_SECONDS * 1_000;
  const presenceReader = createPresenceReader(presenceServer);
  const presence = {
    areOnline: createAreOnline(presenceReader, onRedisError),
    disconnect: createDisconnect(presenceServer, presenceReader),
  };
  const createClearing = (of: Store) =>
    createClearDevices(of, producers, (err) =>
      log.warn({ err }, 'clearing a deleted or replaced device failed; the scheduler retries it'),
    );
  // Express matches them one after the other.
  return [
    pushRoutes(routing, store, producers, {
      ...{ retentionMs, tracer },
      webPushContact: env.WEB_PUSH_CONTACT,
    }),
    outcomesRoutes(routing, store),
    exportRoutes(routing, store, {
      slots: createSlots(presenceServer, EXPORTS_PER_APP, onRedisError),
      signal: exporting,
      onError: (err) => log.warn({ err }, 'an export was cut; the client can continue it'),
    }),
    topicRoutes(routing, store, {
      signal: exporting,
      onError: (err) => log.warn({ err }, 'a list of topics was cut'),
    }),
    webhookRoutes(routing, store, producers),
    deviceRoutes(routing, store, presence, createClearing(store), retentionMs),
    registrationRoutes(routing, deviceStore, {
      tenantStore: store,
      clearDevices: createClearing(deviceStore),
      disconnect: presence.disconnect,
      authKeys: env.DEVICE_AUTH_KEYS,
      rateLimits,
      outageWatch,
      webPushHosts: env.WEB_PUSH_HOSTS,
    }),
    referenceRoutes(VERSION),
  ];
}

/** Connects to MongoDB with connections of its own, and waits for it. */
async function connectToMongodb(
  { release, tracer, waitFor }: ServiceContext,
  env: Environment,
  options: { keptConnections: number; shared?: Store },
): Promise<Store> {
  const store = await waitFor('MongoDB', () =>
    connectStore({
      ...options,
      uri: env.MONGODB_URI,
      appName: 'carillon-api',
      timeoutMs: DATABASE_TIMEOUT_MS,
      checkoutMs: CHECKOUT_TIMEOUT_MS,
      tracer,
    }),
  );
  release('mongodb', store.close);
  return store;
}

/** Connects to MongoDB and waits for the schema. */
async function openStore(
  context: ServiceContext,
  env: Environment,
): Promise<Store & Reports & WebhookStore> {
  const { log, waitFor } = context;
  const store = await connectToMongodb(context, env, { keptConnections: KEPT_CONNECTIONS });
  await waitFor('the schema of MongoDB', store.schema.assertUsable);
  const onError = (err: unknown) => log.warn({ err }, 'reading the suspended accounts failed');
  void store.suspensions.startRefreshing(onError).catch(onError);
  // A push that is accepted before the webhooks are known would never be reported.
  await waitFor('the webhooks in MongoDB', () =>
    store.knownWebhooks.startRefreshing((err) => log.warn({ err }, 'reading the webhooks failed')),
  );
  return { ...store, ...createReports(store), ...createWebhookStore(store) };
}
