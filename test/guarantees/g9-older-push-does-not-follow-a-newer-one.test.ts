import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { keepConnected } from '../support/faults/device-pool.ts';
import { untilAllArrived, untilAnotherArrived } from '../support/faults/expect-complete.ts';
import { type SentPush, sendPush } from '../support/faults/pushes.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { createFleet } from '../support/guarantees/devices.ts';
import { startStackWithoutLimits } from '../support/guarantees/start-unlimited.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import type { Arrival, MqttDevice } from '../support/mqtt-device.ts';
import { createLagRecord } from '../support/observer-lag.ts';
import type { Stack } from '../support/stack.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const DEVICES = 24;
const TROUBLE_MS = 12_000;
/** Guarantee G9: an older push may follow a newer one so long on another connection. */
const AFTER_MS = 1_000;

let server: RedisServer;
let proxy: TcpProxy;
let stack: Stack;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  server = await createRedisServer();
  await server.start();
  proxy = await startTcpProxy(server.port);
  const env = { REDIS_URL: `redis://127.0.0.1:${proxy.port}` };
  stack = await startStackWithoutLimits({ deviceGateways: 2, deliveryWorkers: 2, env });
});
afterAll(async () => {
  await fleet.disconnectAll();
  await stack?.stop();
  await proxy?.stop();
  await server?.remove();
});

/** Expects that no older push of a key came to a device behind a newer one. @param pushes of one key, oldest first */
function expectNoneOvertaken(
  devices: readonly MqttDevice[],
  pushes: readonly SentPush[],
  lagMs: number,
): void {
  const ages = new Map(pushes.map(({ payload }, index) => [payload, index]));
  const ageOf = ({ payload }: Arrival) => ages.get(payload) ?? 0;
  const wrong = devices.flatMap(({ arrivals }) => {
    const own = arrivals.filter(({ payload }) => ages.has(payload));
    return own.filter((older, index) => {
      const newer = own.slice(0, index).find((one) => ageOf(one) > ageOf(older));
      if (newer === undefined) return false;
      const afterMs = older.receivedAtMs - newer.receivedAtMs;
      return older.connection === newer.connection || afterMs > AFTER_MS + 3 * lagMs;
    });
  });
  expect(wrong).toEqual([]);
}

/** Sends pushes of a collapse key one after another for a while. Returns the accepted ones, oldest first. */
async function sendRepeatedly(devices: readonly MqttDevice[], collapse_key: string) {
  const tokens = devices.map(({ token }) => token);
  const pushes: SentPush[] = [];
  for (const end = performance.now() + TROUBLE_MS; performance.now() < end; ) {
    pushes.push(await sendPush(stack, tokens, { collapse_key }));
    await sleep(100 + Math.random() * 200);
  }
  return pushes;
}

/** Breaks connections at random, each about once a second, and has some devices delay receipts for a while. */
function disconnectRepeatedly(devices: readonly MqttDevice[]): { stop(): Promise<void> } {
  let isStopped = false;
  const disrupt = async (device: MqttDevice) => {
    while (!isStopped) {
      await sleep(Math.random() * 1_500);
      if (Math.random() < 0.3) device.holdReceipts();
      else device.releaseReceipts();
      if (Math.random() < 0.6) device.cut();
    }
    device.releaseReceipts();
  };
  const disruptions = devices.map(disrupt);
  return {
    async stop() {
      isStopped = true;
      await Promise.all(disruptions);
    },
  };
}

/** Sends pushes of two keys to devices that connect and disconnect, during a fault; then all must arrive. */
async function sendDuring(disruption: () => Promise<unknown>): Promise<void> {
  const devices = await fleet.createMany(DEVICES, 'online');
  const connections = keepConnected(devices);
  const breaking = disconnectRepeatedly(devices);
  const keys = [`a-${devices[0]?.token}`, `b-${devices[0]?.token}`];
  const lags = createLagRecord();
  const sending = Promise.all(keys.map((key) => sendRepeatedly(devices, key)));
  const [pushes] = await lags.during(Promise.all([sending, disruption()]));
  await breaking.stop();
  // All get the newest push of each key; everything in flight has arrived once a later push without a key has.
  await lags.during(
    untilAllArrived(
      devices,
      pushes.flatMap((some) => some.at(-1) ?? []),
    ),
  );
  await lags.during(untilAnotherArrived(stack, devices));
  await connections.stop();
  for (const some of pushes) expectNoneOvertaken(devices, some, lags.maxMs());
}

/** Freezes a process in the middle of the load. */
async function freeze(service: string, ms: number): Promise<void> {
  await sleep(2_000);
  await whileFrozen(stack, [{ service }], () => sleep(ms));
}

async function cutRedisRepeatedly(): Promise<void> {
  for (const end = performance.now() + TROUBLE_MS; performance.now() < end; ) {
    await sleep(700 + Math.random() * 300);
    proxy.cut();
    await sleep(50 + Math.random() * 200);
    proxy.restore();
  }
}

test.each<[fault: string, disruption: () => Promise<void>]>([
  ['Redis is cut each second', cutRedisRepeatedly],
  ['a gateway is frozen for six seconds', () => freeze('device-gateway', 6_000)],
  ['a worker is frozen for four seconds', () => freeze('delivery-worker', 4_000)],
])('while %s', (_fault, disruption) => sendDuring(disruption));
