import { parseDeviceAuthKeys } from '@carillon/core/device-auth';
import { createProducers } from '@carillon/queue/producers';
import { commonEnv, listenAt, mongodbEnv, presenceEnv, redisEnv } from '@carillon/runtime/env';
import { runService } from '@carillon/runtime/service';
import { connectStore } from '@carillon/store/store';
import { z } from 'zod';
import { startGateway } from './gateway.ts';

const atAddress = listenAt.transform((at, context) => {
  if ('host' in at) return at;
  context.addIssue({ code: 'custom', message: 'write off, host:port or fd:N,N' });
  return z.NEVER;
});

/** `fd:4,5,6`: descriptors of one open socket. */
const descriptors = z
  .string()
  .regex(/^fd:\d+(,\d+)*$/)
  .transform((text) => ({ fds: text.slice(3).split(',').map(Number) }));

/** `off`; `host:port`; or an open socket of whoever started the process. */
const offered = z.union([z.literal('off'), descriptors, atAddress]);

const schema = z.object({
  ...commonEnv,
  ...mongodbEnv,
  ...redisEnv,
  ...presenceEnv,
  /** MQTT 3.1.1 over TCP. */
  MQTT_LISTEN: offered.default({ host: '127.0.0.1', port: 1883 }),
  /** MQTT 3.1.1 over TLS. */
  MQTTS_LISTEN: offered.default('off'),
  /** Certificate (with its chain) and private key for it, PEM; new ones are noticed. */
  TLS_CERT_FILE: z.string().optional(),
  TLS_KEY_FILE: z.string().optional(),
  /** MQTT 3.1.1 over WebSocket. */
  MQTT_WS_LISTEN: offered.default('off'),
  /** `on`: a load balancer begins each link with a header of the PROXY protocol, version 2. */
  PROXY_PROTOCOL: z.enum(['on', 'off']).default('off'),
  /** Links that one process holds at most; it must be allowed to open a few more files. */
  MAX_CONNECTIONS: z.coerce.number().int().min(1).default(18_000),
  /** Keys that sign device credentials, `id:hex` separated by commas, the newest first. */
  DEVICE_AUTH_KEYS: z.string().transform((text, context) => {
    try {
      return parseDeviceAuthKeys(text);
    } catch (error) {
      context.addIssue({ code: 'custom', message: (error as Error).message });
      return z.NEVER;
    }
  }),
  /** `off`: no limits per client address, for load from one machine. */
  ADDRESS_LIMITS: z.enum(['on', 'off']).default('on'),
  /** Over how many seconds links are closed at the end; receipts are flushed after it, within the process's own 20 s. */
  GATEWAY_DRAIN_SECONDS: z.coerce.number().min(0.1).max(600).default(12),
});

/** CONNECT is answered within 5 s even if MongoDB is away. */
const MONGODB_TIMEOUT_MS = 2_500;

await runService('device-gateway', schema, async ({ log, metrics, release, readyWhen }, env) => {
  const store = await connectStore({
    uri: env.MONGODB_URI,
    appName: 'device-gateway',
    timeoutMs: MONGODB_TIMEOUT_MS,
  });
  release('store', store.close);
  const producers = createProducers(env.REDIS_URL, (error) =>
    log.warn({ err: error }, 'the queues were not reached'),
  );
  release('producers', producers.close);
  const gateway = await startGateway({
    store,
    producers,
    metrics,
    log,
    presenceUrl: env.PRESENCE_REDIS_URL ?? env.REDIS_URL,
    listen: {
      mqtt: onUnlessOff(env.MQTT_LISTEN),
      mqtts: onUnlessOff(env.MQTTS_LISTEN),
      ws: onUnlessOff(env.MQTT_WS_LISTEN),
      tls: tlsFiles(env.TLS_CERT_FILE, env.TLS_KEY_FILE),
    },
    hasProxyHeader: env.PROXY_PROTOCOL === 'on',
    maxConnections: env.MAX_CONNECTIONS,
    authKeys: env.DEVICE_AUTH_KEYS,
    hasAddressLimits: env.ADDRESS_LIMITS === 'on',
    goodbyeSeconds: env.GATEWAY_DRAIN_SECONDS,
  });
  release('gateway', gateway.stop);
  readyWhen({
    name: 'presence',
    check: async () => {
      if (!gateway.isAnnounced()) throw new Error('Redis was not reached yet');
    },
  });
  log.info({ ports: gateway.ports }, 'listening for devices');
});

function onUnlessOff(at: z.infer<typeof offered>) {
  return at === 'off' ? undefined : at;
}

function tlsFiles(certFile?: string, keyFile?: string) {
  return certFile === undefined || keyFile === undefined ? undefined : { certFile, keyFile };
}
