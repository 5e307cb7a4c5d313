import { randomUUID } from 'node:crypto';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { decodePresence } from '../../packages/presence/src/keys.ts';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { createDevicePool, type DevicePool, keepConnected } from '../support/faults/device-pool.ts';
import { expectComplete, untilAllArrived } from '../support/faults/expect-complete.ts';
import {
  countBatchStates,
  expectPartlyClosed,
  type SentPush,
  sendPush,
  untilPartlyClosed,
} from '../support/faults/pushes.ts';
import { copyFiles } from '../support/faults/redis-server.ts';
import { whileDead } from '../support/guarantees/crash-stack.ts';
import { lendTo } from '../support/guarantees/lend-to.ts';
import { makeDue, sendTomorrow } from '../support/guarantees/schedule.ts';
import type { TestMongo } from '../support/mongo.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { emptyRedis, openRedis } from '../support/redis.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

let stack: Stack;
let mongo: TestMongo;
let pool: DevicePool;
let connections: ReturnType<typeof keepConnected>;
let redis: Redis;
// Before the stack is given back.
afterAll(async () => {
  redis?.disconnect();
  await connections?.stop();
});
const fleet = lendTo(
  () => useKillableStack(),
  (...lent) => {
    [stack, mongo] = lent;
  },
);
beforeAll(async () => {
  redis = await openRedis(stack.dev);
  pool = await createDevicePool(stack, mongo, { registered: 30_000, real: 20 });
  connections = keepConnected(pool.devices);
});
afterEach(releaseReceipts);

/** Sends to all; the real devices delay their receipts and keep about half of the batches open, on a fast machine too. */
async function sendMidway(): Promise<SentPush> {
  for (const device of pool.devices) device.holdReceipts();
  // A busy machine may need more than the three seconds of a request.
  const push = await until(() => sendPush(stack, pool.tokens));
  await untilPartlyClosed(mongo, push);
  return push;
}

function releaseReceipts(): void {
  for (const device of pool.devices) device.releaseReceipts();
}

test('emptied three times in the middle of one fan-out', async () => {
  const push = await sendMidway();
  for (let round = 0; round < 3; round += 1) {
    const { closed } = await countBatchStates(mongo, push);
    await emptyRedis(redis);
    await expectPartlyClosed(mongo, push);
    if (round === 2) releaseReceipts();
    // Some more is done before it is emptied again, so that each time something else is lost.
    await until(async () => (await countBatchStates(mongo, push)).closed > closed, { everyMs: 5 });
  }
  await expectComplete({ stack, mongo, pool }, push, 'Redis emptied three times');
});

test('emptied while no scheduler runs: the next one adds the lost jobs again', async () => {
  const push = await sendMidway();
  await whileDead(stack, ['scheduler'], async () => {
    await emptyRedis(redis);
    await expectPartlyClosed(mongo, push);
  });
  releaseReceipts();
  await expectComplete({ stack, mongo, pool }, push, 'schedulers killed and Redis emptied');
});

const entryOf = ({ token }: MqttDevice) => `p:${token}`;

const gatewayOf = async (device: MqttDevice) =>
  decodePresence(await redis.get(entryOf(device)))?.gateway;

/** Closes all connections to Redis but the test's own. */
async function cutRedis(): Promise<void> {
  await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
}

/** Sends a push, and waits until it has arrived and nothing is left to do about it. */
async function expectDelivered(device: MqttDevice): Promise<void> {
  const before = device.arrivals.length;
  const push = await sendPush(stack, device.token);
  const arrivals = await device.waitFor(before + 1);
  expect(arrivals.at(-1)?.payload).toBe(push.payload);
  await until(async () => (await countBatchStates(mongo, push)).closed === 1);
}

/** A connected device whose inbox was read. */
async function connectDevice(): Promise<MqttDevice> {
  const device = await fleet.online();
  await expectDelivered(device);
  return device;
}

test('every push is accepted without Redis, and delivery continues when it is back', async () => {
  const devices = await fleet.createMany(5, 'online');
  const tokens = devices.map(({ token }) => token);
  const topic = randomUUID();
  for (const token of tokens)
    await stack.api('POST', '/topics/subscribe', { token, topics: [topic] });
  const sent = await whileDead(stack, ['redis'], async () => {
    const scheduled = await sendTomorrow(stack, tokens);
    await makeDue(mongo, [scheduled]);
    const collapsible = await sendPush(stack, tokens, { collapse_key: 'news' });
    return [
      ...[scheduled, collapsible],
      await sendPush(stack, `/topics/${topic}`, { time_to_live: 3_600 }),
    ];
  });
  await untilAllArrived(devices, sent);
});

test('an entry lost while the connection to Redis was cut for less than the lease', async () => {
  const device = await connectDevice();
  const gateway = await gatewayOf(device);
  expect(gateway).toBeDefined();
  await redis.del(entryOf(device));
  await cutRedis();
  await expectDelivered(device);
  expect(await gatewayOf(device)).toBe(gateway);
});

test('the notice of a row lost with the connection', async () => {
  const device = await connectDevice();
  const entry = await redis.getdel(entryOf(device));
  const push = await sendPush(stack, device.token);
  // The worker takes the device for offline and notifies no gateway of the row.
  await until(async () => (await countBatchStates(mongo, push)).closed === 1);
  await redis.set(entryOf(device), entry ?? '', 'EX', 300);
  await cutRedis();
  expect((await device.waitFor(2)).at(-1)?.payload).toBe(push.payload);
});

test("an entry lost with Redis's last seconds, in which a device connected and another one reconnected", async () => {
  const back = await connectDevice();
  const data = join(stack.home, 'redis');
  await copyFiles(data, `${data}-before`);
  back.cut();
  await back.connect();
  await expectDelivered(back);
  const came = await connectDevice();
  await whileDead(stack, ['redis'], async () => {
    await rm(data, { recursive: true });
    await rename(`${data}-before`, data);
  });
  await Promise.all([came, back].map(expectDelivered));
  expect([came, back].map(({ arrivals }) => arrivals.at(-1)?.connection)).toEqual([1, 2]);
});
