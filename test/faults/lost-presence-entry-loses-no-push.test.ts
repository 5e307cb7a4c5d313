import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { countBatchStates, sendPush } from '../support/faults/pushes.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { openRedis } from '../support/redis.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

/** All entries are checked within 10 s of the reconnect; then the inbox is read. */
const POLL_OPTIONS = { timeoutMs: 15_000, what: 'the push' };
const CUT_MS = 300;

let fixture: Fixture;
let server: RedisServer;
let proxy: TcpProxy;
let redis: Redis;
let devices: MqttDevice[];
beforeAll(async () => {
  server = await createRedisServer();
  await server.start();
  proxy = await startTcpProxy(server.port);
  redis = await openRedis({ redis: server.url });
  const env = { REDIS_URL: `redis://127.0.0.1:${proxy.port}` };
  fixture = await openFixture({ registered: 1, real: 1 }, { env });
});
afterAll(async () => {
  await fixture?.close();
  redis?.disconnect();
  await proxy?.stop();
  await server?.remove();
});
beforeEach(() => {
  devices = [];
});
afterEach(() => Promise.all(devices.map((device) => device.disconnect())));

test('an entry lost while the connection to Redis was cut for less than the lease', async () => {
  const device = await connectDevice();
  const gateways = await redis.keys('g:*');
  proxy.cut();
  await redis.del(presenceKeyOf(device));
  await sleep(CUT_MS);
  proxy.restore();
  await expectDelivered(device);
  expect(await redis.keys('g:*')).toEqual(gateways);
});

test('the notice of a row lost with the connection', async () => {
  const device = await connectDevice();
  const entry = await redis.getdel(presenceKeyOf(device));
  const push = await sendPush(fixture.stack, device.token);
  // The worker takes the device for offline and notifies no gateway of the row.
  await until(async () => (await countBatchStates(fixture.mongo, push)).closed === 1);
  await redis.set(presenceKeyOf(device), entry ?? '', 'EX', 300);
  proxy.cut();
  await sleep(CUT_MS);
  proxy.restore();
  const last = async () => (await device.waitFor(2, POLL_OPTIONS)).at(-1)?.payload;
  expect(await last()).toBe(push.payload);
});

test("an entry lost with Redis's last seconds, in which a device connected and another one reconnected", async () => {
  const back = await connectDevice();
  let came: MqttDevice | undefined;
  await server.restoreAfter(async () => {
    back.cut();
    await back.connect();
    await settle(back, 2);
    came = await connectDevice();
  });
  if (came === undefined) throw new Error('no device has connected');
  await Promise.all([expectDelivered(came), expectDelivered(back)]);
  expect([came, back].map(({ arrivals }) => arrivals.at(-1)?.connection)).toEqual([1, 2]);
});

function presenceKeyOf({ token }: MqttDevice): string {
  return `p:${token}`;
}

/** A connected device whose inbox was read. */
async function connectDevice(): Promise<MqttDevice> {
  const device = await newMqttDevice(fixture.stack.dev);
  devices.push(device);
  await device.connect();
  await settle(device, 1);
  return device;
}

/** Sends a push, and waits until it has arrived and nothing is left to do about it. */
async function settle(device: MqttDevice, arrivals: number): Promise<void> {
  const push = await sendPush(fixture.stack, device.token);
  await device.waitFor(arrivals);
  await until(async () => (await countBatchStates(fixture.mongo, push)).closed === 1);
}

async function expectDelivered(device: MqttDevice): Promise<void> {
  const before = device.arrivals.length;
  const push = await sendPush(fixture.stack, device.token);
  const arrivals = await device.waitFor(before + 1, POLL_OPTIONS);
  expect(arrivals.at(-1)?.payload).toBe(push.payload);
}
