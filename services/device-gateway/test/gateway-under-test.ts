import { existsSync, readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { deviceAuth, parseDeviceAuthKeys } from '@carillon/core/device-auth';
import { newObjectId, newPushId } from '@carillon/core/ids';
import { createHandOver, type Delivery, type HandOver } from '@carillon/presence/hand-over';
import { connectRedis, type Redis } from '@carillon/presence/redis';
import { createWhoIsOnline } from '@carillon/presence/who-is-online';
import { createMetrics } from '@carillon/runtime/metrics';
import { connectStore, type Store } from '@carillon/store/store';
import {
  startRedis,
  startServer,
  type TestServer,
} from '../../../packages/presence/test/start-server.ts';
import { createMqttDevice, type MqttDevice } from '../../../test/support/mqtt-device.ts';
import { until } from '../../../test/support/until.ts';
import { type Gateway, type GatewaySettings, startGateway } from '../src/gateway.ts';

export const AUTH_KEYS = parseDeviceAuthKeys(`1:${'ab'.repeat(32)}`);
const APP = newObjectId();
export const ANY_PORT = { host: '127.0.0.1', port: 0 };

/** Real Redis and MongoDB, a gateway between them, and a worker's side of the hand-over. */
export interface Bench {
  gateway: Gateway;
  store: Store;
  redis: Redis;
  mongod: TestServer;
  worker: HandOver;
  finished: string[];
  startGateway(settings?: Partial<GatewaySettings>): Promise<Gateway>;
  /** Registers a device and gives it, not yet connected. */
  device(
    gateway?: Gateway,
    via?: { scheme: 'mqtt' | 'mqtts' | 'ws'; ca?: string },
  ): Promise<MqttDevice>;
  /** Accepts a push of one recipient, to be handed over or owed. */
  push(token: string, options?: { collapse?: string; data?: string }): Promise<TestPush>;
  /** Hands a push over to where the device is. */
  handOver(push: TestPush, token: string, deadlineMs?: number): Promise<string | undefined>;
  /** Whether the device is where a worker finds it. */
  isOnline(token: string): Promise<boolean>;
  stop(): Promise<void>;
}

export type TestPush = Delivery;

/** The MongoDB that the project's first run uses: on PATH, else in the cache of the user. */
function mongodPath(): string {
  const cache = join(homedir(), '.cache', 'carillon');
  const cached = existsSync(cache) ? readdirSync(cache) : [];
  const [found] = cached
    .map((name) => join(cache, name, 'mongod'))
    .filter((path) => existsSync(path));
  return found ?? 'mongod';
}

function startMongod(): Promise<TestServer> {
  return startServer(mongodPath(), ({ port, folder }) => [
    ...['--port', `${port}`, '--bind_ip', '127.0.0.1', '--dbpath', folder],
    ...['--wiredTigerCacheSizeGB', '0.25', '--quiet'],
  ]);
}

export async function startBench(): Promise<Bench> {
  const redisServer = await startRedis();
  const mongod = await startMongod();
  const uri = `mongodb://127.0.0.1:${mongod.port}/test`;
  const store = await connectStore({ uri, appName: 'test', timeoutMs: 2_500 });
  await store.migrate();
  const redis = await connectRedis(redisServer.url);
  const worker = await createHandOver({ url: redisServer.url });
  const online = createWhoIsOnline(redis);
  const finished: string[] = [];
  const gateways: Gateway[] = [];

  async function start(settings: Partial<GatewaySettings> = {}): Promise<Gateway> {
    const gateway = await startGateway({
      store,
      producers: {
        presence: async () => undefined,
        finish: async (pushes) => void finished.push(...pushes),
      },
      metrics: createMetrics(),
      presenceUrl: redisServer.url,
      log: { info: () => undefined, warn: () => undefined },
      listen: { mqtt: ANY_PORT, ws: ANY_PORT },
      hasProxyHeader: false,
      maxConnections: 1_000,
      authKeys: AUTH_KEYS,
      hasAddressLimits: true,
      goodbyeSeconds: 0.1,
      ...settings,
    });
    gateways.push(gateway);
    await until(() => gateway.isAnnounced());
    return gateway;
  }

  const first = await start();
  return {
    gateway: first,
    store,
    redis,
    mongod,
    worker,
    finished,
    startGateway: start,
    async device(gateway = first, { scheme, ca } = { scheme: 'mqtt' }) {
      const { token } = await store.devices.register(APP, 'electron');
      const url = `${scheme}://127.0.0.1:${gateway.ports[scheme]}`;
      return createMqttDevice({
        url,
        token,
        auth: deviceAuth(AUTH_KEYS, token),
        ...(ca && { ca }),
      });
    },
    push: (token, options) => acceptPush(store, token, options),
    async handOver(push, token, deadlineMs = 500) {
      const [place] = await online.look([token]);
      if (place === undefined) return 'offline';
      return (await worker.handOver(push, [{ token, position: 0, place }], deadlineMs)).get(0);
    },
    isOnline: async (token) => (await online.look([token]))[0] !== undefined,
    async stop() {
      for (const gateway of gateways) await gateway.stop();
      await worker.close();
      redis.disconnect();
      await store.close();
      await mongod.stop();
      await redisServer.stop();
    },
  };
}

async function acceptPush(
  store: Store,
  token: string,
  { collapse, data = '{"n":1}' }: { collapse?: string; data?: string } = {},
): Promise<TestPush> {
  const now = Math.floor(store.clock.now());
  const _id = newPushId(now);
  const expiresAt = new Date(now + 60_000);
  await store.pushes.insert({
    _id,
    app: APP,
    state: 'open',
    acceptedAt: new Date(now),
    expiresAt,
    sendUntil: expiresAt,
    data,
    ...(collapse !== undefined && { collapse }),
    audience: { topics: [], tokens: '' },
    devices: 1,
    fan: { seq: 0, next: 1, done: true },
    work: { state: 'ready', channel: 'mqtt', at: new Date(now), tries: 0, n: 1, tokens: token },
  });
  return {
    push: _id,
    work: _id,
    claim: `claim-${_id}`,
    expiresAt: expiresAt.getTime(),
    payload: data,
    ...(collapse !== undefined && { collapse }),
  };
}

/** Writes the row that owes a push to a device. */
export async function owe(
  bench: Bench,
  token: string,
  push: TestPush,
  sent = false,
): Promise<void> {
  const { push: id, work, collapse } = push;
  await bench.store.inbox.owe([
    { token, push: id, work, position: 0, sent, ...(collapse !== undefined && { collapse }) },
  ]);
}
