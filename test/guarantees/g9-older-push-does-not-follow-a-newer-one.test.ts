import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { keepConnected } from '../support/faults/device-pool.ts';
import { type SentPush, sendPush } from '../support/faults/pushes.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import {
  disconnectRepeatedly,
  findOutOfOrder,
  sendRepeatedly,
} from '../support/guarantees/collapse.ts';
import { createFleet, payloadsOf } from '../support/guarantees/devices.ts';
import { startStackWithoutLimits } from '../support/guarantees/start-unlimited.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import type { Stack } from '../support/stack.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const DEVICES = 24;
const TROUBLE_MS = 12_000;
const FROZEN_MS = 6_000;
/** The guarantee's second, and what the test's own process may add to it. */
const AFTER_MS = 1_200;
const DEADLINE_MS = 120_000;

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

/** Sends pushes of two keys to devices that connect and disconnect, during a fault; then all must arrive. */
async function sendDuring(disruption: () => Promise<unknown>): Promise<void> {
  const devices = await fleet.createMany(DEVICES, 'online');
  const connections = keepConnected(devices);
  const breaking = disconnectRepeatedly(devices);
  const keys = [`a-${devices[0]?.token}`, `b-${devices[0]?.token}`];
  const [pushes] = await Promise.all([
    Promise.all(keys.map((key) => sendRepeatedly(stack, devices, key, TROUBLE_MS))),
    disruption(),
  ]);
  await breaking.stop();
  await expectNewest(devices, pushes);
  await connections.stop();
  const overtaken = devices.flatMap((device) =>
    pushes.flatMap((some) => findOutOfOrder(device, some)),
  );
  const isWrong = ({ afterMs, isOnOneConnection }: (typeof overtaken)[number]) =>
    isOnOneConnection || afterMs > AFTER_MS;
  expect(overtaken.filter(isWrong)).toEqual([]);
}

/** All get the newest push of each key; everything in flight has arrived once a later push without a key has. */
async function expectNewest(devices: MqttDevice[], pushes: SentPush[][]): Promise<void> {
  const newest = pushes.map((some) => some.at(-1)?.payload ?? '');
  await untilAllHave(devices, newest);
  const tokens = devices.map(({ token }) => token);
  await untilAllHave(devices, [(await sendPush(stack, tokens)).payload]);
}

async function untilAllHave(devices: MqttDevice[], payloads: string[]): Promise<void> {
  const hasAll = (device: MqttDevice) =>
    payloads.every((payload) => payloadsOf(device).includes(payload));
  await until(() => devices.every(hasAll), { timeoutMs: 30_000, what: 'the newest everywhere' });
}

test(
  'while Redis is cut each second',
  () =>
    sendDuring(async () => {
      for (const end = performance.now() + TROUBLE_MS; performance.now() < end; ) {
        await sleep(700 + Math.random() * 300);
        proxy.cut();
        await sleep(50 + Math.random() * 200);
        proxy.restore();
      }
    }),
  DEADLINE_MS,
);

test(
  'while a gateway is frozen for six seconds',
  () =>
    sendDuring(async () => {
      await sleep(2_000);
      await whileFrozen(stack, [{ service: 'device-gateway' }], () => sleep(FROZEN_MS));
    }),
  DEADLINE_MS,
);

test(
  'while a worker is frozen for four seconds',
  () =>
    sendDuring(async () => {
      await sleep(2_000);
      await whileFrozen(stack, [{ service: 'delivery-worker' }], () => sleep(4_000));
    }),
  DEADLINE_MS,
);
