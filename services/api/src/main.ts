import { parseDeviceAuthKeys } from '@carillon/core/device-auth';
import { LIMITS } from '@carillon/core/limits';
import { readPushHost } from '@carillon/core/web-push-endpoint';
import { connectRedis } from '@carillon/presence/redis';
import { createWhoIsOnline, type WhoIsOnline } from '@carillon/presence/who-is-online';
import { createWindowCounts } from '@carillon/presence/window-counts';
import { createProducers, type Producers } from '@carillon/queue/producers';
import { commonEnv, listenAt, mongodbEnv, presenceEnv, redisEnv } from '@carillon/runtime/env';
import { runService } from '@carillon/runtime/service';
import { isDatabaseFailure } from '@carillon/store/failures';
import { connectStore, type Store } from '@carillon/store/store';
import { z } from 'zod';
import packageJson from '../package.json' with { type: 'json' };
import { deviceRoutes } from './devices/routes.ts';
import { createAuthenticate } from './http/authenticate.ts';
import { createRateLimits } from './http/rate-limits.ts';
import { createBodyReader } from './http/read-body.ts';
import { createRouting, type Routing } from './http/route.ts';
import { type Routes, serve } from './http/server.ts';
import { pushRoutes } from './push/routes.ts';
import { referenceRoutes } from './reference/routes.ts';
import { createOutageWatch } from './registration/outage-watch.ts';
import { registrationRoutes } from './registration/routes.ts';
import { topicRoutes } from './topics/routes.ts';

const environment = z.object({
  ...commonEnv,
  ...mongodbEnv,
  ...redisEnv,
  ...presenceEnv,
  /** Where the API is served. */
  API_LISTEN: listenAt.default({ host: '127.0.0.1', port: 4000 }),
  /** Pepper of the API keys' digests; keys become worthless when it changes. */
  API_KEY_PEPPER: z.string().min(32),
  /** Keys of the devices' credentials, newest first: `2:<hex>,1:<hex>`. */
  DEVICE_AUTH_KEYS: z.string().transform(parseDeviceAuthKeys),
  /** How long a push delivered to all can be asked for. */
  RETENTION_SECONDS: z.coerce.number().int().min(1).default(172_800),
  /** `off`: no limits per client address, for load from one machine. */
  ADDRESS_LIMITS: z.enum(['on', 'off']).default('on'),
  /** How many proxies of yours stand in front; as many entries of X-Forwarded-For are believed. */
  TRUST_PROXY: z.coerce.number().int().min(0).max(10).default(0),
  /** Hosts (with their port, unless 443) of Web Push services besides the browsers' own, separated by commas. */
  WEB_PUSH_HOSTS: z
    .string()
    .default('')
    .transform((text) => text.split(',').filter(Boolean)),
});

const VERSION = packageJson.version;

/** With the look-up of the key before it and the answer after it, a database that is away costs under 3 s (G15). */
const DATABASE_TIMEOUT_MS = 2_500;

/** A job a little too early would find nothing due, and the push would wait for the next tick. */
const DUE_MARGIN_MS = 30;
/** What is due later than this is left to the reconciler's ticks: Redis holds no year of jobs. */
const DUE_JOB_MOST_MS = 86_400_000;

type Opened = { store: Store; producers: Producers; whoIsOnline: WhoIsOnline; retentionMs: number };

await runService('api', environment, async ({ log, metrics, release, readyWhen }, env) => {
  const onRedisError = (err: Error): void =>
    log.warn({ err }, 'Redis failed; jobs are found again, limits are per process');
  const store = await connectStore({
    uri: env.MONGODB_URI,
    appName: 'carillon-api',
    timeoutMs: DATABASE_TIMEOUT_MS,
  });
  release('mongodb', store.close);
  readyWhen({ name: 'mongodb', check: store.ping });
  const producers = createProducers(env.REDIS_URL, onRedisError);
  release('producers', producers.close);
  const presence = await connectRedis(env.PRESENCE_REDIS_URL ?? env.REDIS_URL);
  release('presence', () => presence.disconnect());
  const outages = createOutageWatch();
  const limits = createRateLimits(
    createWindowCounts(presence, onRedisError),
    env.ADDRESS_LIMITS === 'on',
  );
  const routing = createRouting({
    log,
    metrics,
    authenticate: createAuthenticate({
      pepper: env.API_KEY_PEPPER,
      keys: store.keys,
      countWrongKey: limits.countWrongKey,
    }),
    countRequest: limits.countRequest,
    readBody: createBodyReader(),
    // A fault of ours that somebody can provoke must not close registration for everybody.
    onSurprise: (error) => {
      if (isDatabaseFailure(error)) outages.noteFailure();
    },
  });
  const opened: Opened = {
    store,
    producers,
    whoIsOnline: createWhoIsOnline(presence),
    retentionMs: env.RETENTION_SECONDS * 1_000,
  };
  const features = [
    referenceRoutes(VERSION),
    pushFeature(routing, opened),
    topicFeature(routing, opened),
    deviceFeature(routing, opened, onRedisError),
    registrationRoutes(routing, {
      authKeys: env.DEVICE_AUTH_KEYS,
      findApp: store.apps.find,
      findNamedApp: store.apps.findNamed,
      register: store.devices.register,
      setAddress: store.devices.setAddress,
      dropSubscriptions: async (app, token) =>
        store.subscriptions.unsubscribe(app, token, await store.subscriptions.topicsOf(token)),
      countRegistration: limits.countRegistration,
      webPushHosts: env.WEB_PUSH_HOSTS.map(readPushHost),
      webPushPublicKey: store.credentials.webPushPublicKey,
      findDevice: store.devices.findForConnect,
      findRecipient: store.devices.findRecipient,
      subscribe: store.subscriptions.subscribe,
      unsubscribe: store.subscriptions.unsubscribe,
      topicsOf: store.subscriptions.topicsOf,
      isQuiet: outages.isQuiet,
      noteFailure: outages.noteFailure,
    }),
  ];
  const server = await serve(env.API_LISTEN, routing, features, env.TRUST_PROXY);
  release('http', server.stop);
});

function pushFeature(routing: Routing, { store, producers, retentionMs }: Opened): Routes {
  return pushRoutes(routing, {
    findRecipient: store.devices.findRecipient,
    findRecipients: store.devices.findRecipients,
    topicCounters: store.topics.counters,
    subscribers: (app, topic) => store.subscriptions.stream(app, topic, ''),
    insertPush: store.pushes.insert,
    findByKey: store.pushes.findByKey,
    hasApnsCredential: (app) => store.credentials.has(app, 'apns'),
    insertBatches: store.batches.insert,
    commit: store.pushes.commit,
    addSendJob: producers.send,
    addFanOutJob: producers.fanOut,
    addDeliverJob: producers.deliver,
    addDueJob: async (dueAtMs) => {
      const afterMs = dueAtMs - store.clock.now() + DUE_MARGIN_MS;
      if (afterMs < DUE_JOB_MOST_MS) await producers.lookForDue(dueAtMs / 1_000, afterMs);
    },
    findPush: store.pushes.find,
    pendingDevices: (push) => store.pending.devices(push, LIMITS.pendingDevices),
    markDeleted: store.endings.markDeleted,
    addEndJob: (push) => producers.end([push]),
    now: store.clock.now,
    retentionMs,
  });
}

function topicFeature(routing: Routing, { store }: Opened): Routes {
  return topicRoutes(routing, {
    findRecipient: store.devices.findRecipient,
    subscribe: store.subscriptions.subscribe,
    unsubscribe: store.subscriptions.unsubscribe,
    topicsOf: store.subscriptions.topicsOf,
    page: store.subscriptions.page,
    anchor: store.anchors.find,
    setAnchor: store.anchors.set,
    listTopics: store.topics.list,
  });
}

function deviceFeature(
  routing: Routing,
  { store, whoIsOnline, retentionMs }: Opened,
  onRedisError: (error: Error) => void,
): Routes {
  /** While Redis is away nobody is known to be connected. */
  async function areOnline(tokens: readonly string[]): Promise<boolean[]> {
    const places = await whoIsOnline.look(tokens).catch((error: Error) => {
      onRedisError(error);
      return [];
    });
    return tokens.map((_, index) => places[index] !== undefined);
  }
  return deviceRoutes(routing, {
    findDevice: store.devices.find,
    findDevices: store.devices.findAll,
    areOnline,
    topicsOf: store.subscriptions.topicsOf,
    inboxRows: store.inbox.listRows,
    payloads: store.pushes.payloads,
    now: store.clock.now,
    retentionMs,
  });
}
