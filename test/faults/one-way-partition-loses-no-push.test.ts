import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { keepConnected } from '../support/faults/device-pool.ts';
import { listUnreadyDuring } from '../support/faults/list-unready.ts';
import { openServiceSet, type ServiceSet } from '../support/faults/service-set.ts';
import { expectWholeOrAbsent, sendDuring } from '../support/faults/steady-pushes.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const LOAD = { perSecond: 5, perPush: 4 };
const DEVICES = 12;
const PUSHES = 10;
/** Takes longer than the lease of a batch. */
const PUSHES_DURING_PARTITION = 40;
const PARTITIONED = ['delivery-worker', 'device-gateway', 'scheduler'] as const;
const SERVERS = ['mongodb', 'redis'] as const;
const DIRECTIONS = ['requests', 'responses'] as const;

/** Each service has proxies of its own to MongoDB and Redis. */
const proxies = new Map<string, TcpProxy>();
let set: ServiceSet;
let devices: MqttDevice[] = [];
let connections: { stop(): Promise<void> } | undefined;
beforeAll(async () => {
  set = await openServiceSet(async (service, { env, redis }) => {
    const uri = new URL(env.MONGODB_URI);
    const mongodb = await startTcpProxy(Number(uri.port));
    const ofRedis = await startTcpProxy(redis.port);
    proxies.set(`${service} mongodb`, mongodb).set(`${service} redis`, ofRedis);
    uri.port = String(mongodb.port);
    return { MONGODB_URI: uri.href, REDIS_URL: `redis://127.0.0.1:${ofRedis.port}` };
  });
  // It continues while the other one has lost its connection.
  await (await set.start('delivery-worker')).untilReady();
  devices = await Promise.all(Array.from({ length: DEVICES }, () => newMqttDevice(set.dev)));
  await Promise.all(devices.map((device) => device.connect()));
  connections = keepConnected(devices);
});
afterAll(async () => {
  await connections?.stop();
  await set?.stop();
  for (const proxy of proxies.values()) await proxy.stop();
});

test.each(
  SERVERS.flatMap((server) =>
    PARTITIONED.flatMap((service) =>
      DIRECTIONS.map((direction) => ({ server, service, direction })),
    ),
  ),
)(
  '$service and $server, between which the $direction are lost: all pushes are accepted and delivered, and no process ends or turns unready',
  async ({ server, service, direction }) => {
    const proxy = proxies.get(`${service} ${server}`);
    if (proxy === undefined) throw new Error('there is no proxy');
    const unready = await listUnreadyDuring(set.services, async () => {
      const sent = await sendDuring(set, devices, LOAD, async (load) => {
        await load.untilAccepted(PUSHES);
        proxy.block(direction);
        await load.untilAccepted(PUSHES_DURING_PARTITION).finally(proxy.restore);
        expect(proxy.heldBytes()).toBeGreaterThan(0);
        await load.untilAccepted(PUSHES);
      });
      expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
      const observers = { stack: set, mongo: set.mongo, pool: { devices } };
      await expectWholeOrAbsent(
        `no ${direction} between ${service} and ${server}`,
        observers,
        sent,
      );
    });
    expect(unready).toEqual([]);
    const ended = set.services.filter((process) => !process.isRunning());
    expect(ended.map((one) => one.service)).toEqual([]);
  },
  180_000,
);
