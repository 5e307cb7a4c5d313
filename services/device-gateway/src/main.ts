import { hostname } from 'node:os';
import { createBatcher } from '@carillon/core/batcher';
import { startFigures } from '@carillon/presence/figures-writer';
import { createProducers } from '@carillon/queue/producers';
import { presenceRedis, queueRedis } from '@carillon/runtime/env';
import { createProxyWarner } from '@carillon/runtime/proxy-warner';
import { runService, STOP_TIMEOUT_MS } from '@carillon/runtime/service';
import { connectStore } from '@carillon/store/store';
import type { z } from 'zod';
import { environment, type listenSetting } from './environment.ts';
import { startGateway } from './gateway.ts';

/** Timeout of a database operation: a CONNECT gets its CONNACK within 5 s even if MongoDB is unreachable. */
const MONGODB_TIMEOUT_MS = 2_500;

await runService(
  'device-gateway',
  environment,
  async ({ log, metrics, release, tracer, waitFor, watch }, env) => {
    const store = await waitFor('MongoDB', () =>
      connectStore({
        uri: env.MONGODB_URI,
        appName: 'device-gateway',
        timeoutMs: MONGODB_TIMEOUT_MS,
      }),
    );
    release('store', store.close);
    await waitFor('the schema of MongoDB', store.schema.assertUsable);
    const figures = startFigures(queueRedis(env), { log });
    release('figures', figures.stop);
    const producers = createProducers(queueRedis(env), (error) =>
      log.warn({ err: error }, 'the queues in Redis are unreachable'),
    );
    release('producers', producers.close);
    const gateway = await startGateway({
      store,
      producers,
      metrics,
      tracer,
      log,
      proxyWarner: createProxyWarner({ log, record: store.proxyWarnings.record }),
      presenceRedis: presenceRedis(env),
      listen: {
        mqtt: toListenAddress(env.MQTT_LISTEN),
        mqtts: toListenAddress(env.MQTTS_LISTEN),
        ws: toListenAddress(env.MQTT_WS_LISTEN),
        tls: tlsFiles(env.TLS_CERT_FILE, env.TLS_KEY_FILE),
      },
      hasProxyHeader: env.PROXY_PROTOCOL === 'on',
      maxConnections: env.MAX_CONNECTIONS,
      maxWaitingBytes: env.MAX_WAITING_BYTES,
      webSocketOrigins: env.MQTT_WS_ORIGINS,
      authKeys: env.DEVICE_AUTH_KEYS,
      hasAddressLimits: env.ADDRESS_LIMITS === 'on',
      drainSeconds: env.GATEWAY_DRAIN_SECONDS,
    });
    release('gateway', gateway.stop);
    figures.reportOnline(`${hostname()}:${process.pid}`, gateway.countConnections);
    log.info({ ports: gateway.ports }, 'listening for devices');
    // The loops stop together with Redis, and share the checks.
    const doServersRespond = createBatcher<string, boolean>('probe-servers', async (names) => {
      await Promise.all([gateway.assertRedisWritable(), store.ping()]);
      return names.map(() => true);
    });
    for (const [name, lastProgressAt] of Object.entries(gateway.loops))
      watch({ name, lastProgressAt, isExpected: () => doServersRespond(name) });
    // Meanwhile devices are served from MongoDB.
    await waitFor('Redis', async () => {
      if (!gateway.isRegistered()) throw new Error('the gateway is not registered in Redis yet');
    });
  },
  ({ GATEWAY_DRAIN_SECONDS, STOP_DELAY_SECONDS }) => ({
    delayMs: STOP_DELAY_SECONDS * 1_000,
    timeoutMs: GATEWAY_DRAIN_SECONDS * 1_000 + STOP_TIMEOUT_MS,
  }),
);

function toListenAddress(address: z.infer<typeof listenSetting>) {
  return address === 'off' ? undefined : address;
}

function tlsFiles(certFile?: string, keyFile?: string) {
  return certFile === undefined || keyFile === undefined ? undefined : { certFile, keyFile };
}
