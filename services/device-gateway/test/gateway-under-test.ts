import { createDeviceAuth, parseDeviceAuthKeys } from '@carillon/core/device-auth';
import { newObjectId, newPushId } from '@carillon/core/ids';
import { createDispatcher, type Delivery } from '@carillon/presence/dispatcher';
import { createPresenceReader } from '@carillon/presence/presence-reader';
import { connectPresence } from '@carillon/presence/presence-server';
import type { Redis, RedisAddress } from '@carillon/presence/redis';
import { jobSchemas } from '@carillon/queue/jobs';
import { createProducers } from '@carillon/queue/producers';
import { createWorker } from '@carillon/queue/workers';
import { createMetrics } from '@carillon/runtime/metrics';
import { createProxyWarner } from '@carillon/runtime/proxy-warner';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import { createMqttDevice, type MqttDevice } from '../../../test/support/mqtt-device.ts';
import { openStore, type TestStore } from '../../../test/support/open-store.ts';
import { type OwnDatabase, startDatabase } from '../../../test/support/own-database.ts';
import { until } from '../../../test/support/until.ts';
import { type Gateway, type GatewaySettings, startGateway } from '../src/gateway.ts';

export const AUTH_KEYS = parseDeviceAuthKeys(`1:${'ab'.repeat(32)}`);
const APP = newObjectId();
export const ANY_PORT = { host: '127.0.0.1', port: 0 };

export type TestPush = Delivery;

/** `trace` is the context of the trace of its request. */
type PushOptions = Partial<Record<'collapse' | 'data' | 'trace', string>>;

const DEFAULTS = {
  ...{ maxConnections: 1_000, maxWaitingBytes: 64 * 1_024 * 1_024 },
  ...{ webSocketOrigins: new Set<string>(), authKeys: AUTH_KEYS },
  ...{ hasAddressLimits: true, hasProxyHeader: false, drainSeconds: 0.1 },
};

/** A gateway with a real Redis and MongoDB, and a dispatcher as workers use it. */
export type GatewayUnderTest = Awaited<ReturnType<typeof startGatewayUnderTest>>;

/** @param givenDatabase stopped with the gateway */
export async function startGatewayUnderTest(givenDatabase?: OwnDatabase) {
  const database = givenDatabase ?? (await startDatabase());
  const { store, redis, worker, presenceReader, redisServer, ...servers } =
    await startServers(database);
  const checkedPushes: string[] = [];
  const { producers, stopQueue } = startQueue(redisServer, checkedPushes);
  const gateways: Gateway[] = [];

  const log = { info: () => undefined, warn: () => undefined };
  async function startAnother(settings: Partial<GatewaySettings> = {}): Promise<Gateway> {
    const gateway = await startGateway({
      ...{ store, producers, log },
      ...{ metrics: createMetrics(), presenceRedis: redisServer },
      proxyWarner: createProxyWarner({ log, record: async () => undefined }),
      listen: { mqtt: ANY_PORT, ws: ANY_PORT },
      ...DEFAULTS,
      ...settings,
    });
    gateways.push(gateway);
    await until(() => gateway.isRegistered());
    return gateway;
  }

  async function dispatch(push: TestPush, token: string, deadlineMs = 5_000) {
    const deadline = performance.now() + deadlineMs;
    const beforeSend = async () => ({ deadline, includes: () => true });
    const plan = { app: 'app', mayWait: true, beforeSend };
    return (await worker.dispatchToDevices(push, [{ token, position: 0 }], plan)).get(0);
  }

  const defaultGateway = await startAnother();
  return {
    gateway: defaultGateway,
    store,
    redis,
    uri: database.uri,
    worker,
    /** Pushes whose completion the gateways have requested to be checked. */
    checkedPushes,
    /** Starts a further gateway. */
    startGateway: startAnother,
    /** Registers a device and returns its token. */
    newToken: async (app = APP): Promise<string> =>
      (await store.devices.register(app, 'electron')).token,
    /** Registers a device and returns it, not connected. */
    registerDevice: (gateway = defaultGateway, via?: Parameters<typeof registerDevice>[2]) =>
      registerDevice(store, gateway, via),
    /** Creates an open push of one recipient, to be dispatched or written to the inbox. */
    createPush: (token: string, options?: PushOptions) => insertPush(store, token, options),
    /** Dispatches a push to the device's gateway; returns the delivery result. */
    dispatch,
    /** Dispatches a push until its device, which connects, has acknowledged it. It has no inbox row to wait for. */
    async untilAcknowledged(push: TestPush, token: string): Promise<void> {
      const live: TestPush = { ...push, hasNoRow: true };
      await until(async () => (await dispatch(live, token)) === 'acknowledged');
    },
    /** Notifies the device's gateway of the row of a push, as the worker that has written it. */
    async notify({ push }: Pick<TestPush, 'push'>, token: string): Promise<void> {
      const [presence] = await presenceReader.lookup([token]);
      if (typeof presence !== 'object') throw new Error(`${token} is not connected`);
      await worker.notifyInboxes(push, [{ token, presence }]);
    },
    /** Checks whether workers find the device in presence. */
    isOnline: async (token: string): Promise<boolean> =>
      (await presenceReader.lookup([token]))[0] !== undefined,
    async stop(): Promise<void> {
      for (const gateway of gateways) await gateway.stop();
      await stopQueue();
      await servers.stop();
    },
  };
}

async function startServers({ uri, stop }: OwnDatabase) {
  const redisServer = await startRedis();
  const store = await openStore({ uri, appName: 'test', timeoutMs: 30_000 });
  await store.migrate();
  const presence = await connectPresence(redisServer);
  const redis = presence.redis as Redis;
  const worker = await createDispatcher(presence);
  return {
    ...{ redisServer, store, redis, worker },
    presenceReader: createPresenceReader(presence),
    async stop(): Promise<void> {
      await worker.close();
      presence.close();
      await store.close();
      await stop();
      await redisServer.stop();
    },
  };
}

/** Starts producers, and a worker that records the pushes whose completion is to be checked. */
function startQueue(redis: RedisAddress, checkedPushes: string[]) {
  const onError = () => undefined;
  const producers = createProducers(redis, onError);
  const recordChecks = async ({ pushes }: { pushes: string[] }) =>
    void checkedPushes.push(...pushes);
  const worker = createWorker({ redis, onError }, 'finish', jobSchemas.finish, recordChecks, 1);
  return {
    producers,
    async stopQueue(): Promise<void> {
      await worker.stop();
      await producers.close();
    },
  };
}

/** @param via transport, and for TLS the authority that the device trusts, PEM */
async function registerDevice(
  store: TestStore,
  gateway: Gateway,
  via: { scheme: 'mqtt' | 'mqtts' | 'ws'; ca?: string } = { scheme: 'mqtt' },
): Promise<MqttDevice> {
  const { token } = await store.devices.register(APP, 'electron');
  const url = `${via.scheme}://127.0.0.1:${gateway.ports[via.scheme]}`;
  return createMqttDevice({ ...via, url, token, auth: createDeviceAuth(AUTH_KEYS, token) });
}

async function insertPush(
  store: TestStore,
  token: string,
  { collapse, trace, data = '{"n":1}' }: PushOptions = {},
): Promise<TestPush> {
  const now = Math.floor(store.clock.now());
  const _id = newPushId(now);
  const expiresAt = new Date(now + 600_000);
  await store.pushes.insert({
    _id,
    app: APP,
    state: 'open',
    acceptedAt: new Date(now),
    expiresAt,
    sendUntil: expiresAt,
    data,
    ...(collapse !== undefined && { collapse }),
    ...(trace !== undefined && { trace }),
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

/** Writes a push to the inbox of a device. */
export async function enqueueInboxRow(
  bench: GatewayUnderTest,
  token: string,
  push: TestPush,
  sent = false,
): Promise<void> {
  const { push: id, work, collapse } = push;
  await bench.store.inbox.enqueue([
    { token, push: id, work, position: 0, sent, ...(collapse !== undefined && { collapse }) },
  ]);
}
