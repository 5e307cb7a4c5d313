import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import {
  getOutcomes,
  type Sent,
  send,
  untilInbox,
  untilOutcome,
} from '../support/end-to-end/pushes.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { emptyRedis, listKeys, openRedis } from '../support/redis.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const PAIR = [0, 1];

let stack: Stack;
let mongo: TestMongo;
let redis: Redis;
let devices: MqttDevice[] = [];
beforeAll(async () => {
  stack = await useKillableStack();
  mongo = await openMongo(stack.dev);
  redis = await openRedis(stack.dev);
});
afterAll(async () => {
  redis?.disconnect();
  await mongo?.close();
  await stack?.stop();
});
beforeEach(() => {
  devices = [];
});
afterEach(() => Promise.all(devices.map((device) => device.disconnect())));

describe('a delivery-worker killed between dispatch and settling', () => {
  test('leaves the push of a device without a receipt pending, until its next connect', async () => {
    const device = await connectedDevice();
    device.holdReceipts();
    const push = await send(stack, device.token);
    await device.waitFor(1);
    await killWorkerWithClaim(push.id);
    device.cut();
    await untilInbox(stack, device.token, [push.id]);
    device.releaseReceipts();
    await device.connect();
    const arrivals = await device.waitFor(2);
    expect(arrivals.map(({ payload }) => payload)).toEqual([push.payload, push.payload]);
    await untilOutcome(stack, push.id, [device.token], 'delivered');
    await expectOnly([device], 2);
  });

  test('leaves each recipient with its own outcome: late receipts count, and nothing is sent again', async () => {
    const quick = await Promise.all(Array.from({ length: 10 }, connectedDevice));
    const slow = await Promise.all(Array.from({ length: 10 }, connectedDevice));
    const offline = await newDevice();
    for (const device of slow) device.holdReceipts();
    const push = await send(stack, [...devices.map(({ token }) => token)]);
    // The first arrival shows that all are dispatched: they went to the gateway together.
    await Promise.race(slow.map((device) => device.waitFor(1)));
    await killWorkerWithClaim(push.id);
    await Promise.all([...quick, ...slow].map((device) => device.waitFor(1)));
    for (const device of slow) device.releaseReceipts();
    await until(async () => (await getOutcomes(stack, push.id)).delivered === 20, { everyMs: 300 });
    expect(await getOutcomes(stack, push.id)).toEqual({ delivered: 20, inbox: 1 });
    await expectOnly([...quick, ...slow], 1);
    await offline.connect();
    await untilOutcome(stack, push.id, [offline.token], 'delivered');
    await expectOnly([offline], 1);
  });
});

describe('Redis emptied before a job is taken', () => {
  test('loses no push, for a connected device and for an offline one', async () => {
    const connected = await connectedDevice();
    const offline = await newDevice();
    const push = await whileNoJobIsTaken(async () => {
      const sent = await send(stack, [connected.token, offline.token]);
      await until(() => jobsOf(sent.id));
      await emptyRedis(redis);
      expect(await jobsOf(sent.id)).toBeUndefined();
      return sent;
    });
    expect((await connected.waitFor(1))[0]?.payload).toBe(push.payload);
    await untilInbox(stack, offline.token, [push.id]);
    await offline.connect();
    expect((await offline.waitFor(1))[0]?.payload).toBe(push.payload);
    await untilOutcome(stack, push.id, [connected.token, offline.token], 'delivered');
    await expectOnly([connected, offline], 1);
  });

  test('loses none of many pushes to a device, and none overtakes in its inbox', async () => {
    const device = await newDevice();
    const sent: Sent[] = [];
    await whileNoJobIsTaken(async () => {
      for (let n = 0; n < 30; n += 1) sent.push(await send(stack, device.token));
      await emptyRedis(redis);
    });
    // The device's info lists pushes before they have a row, and only rows have an order.
    const rows = { push: { $in: sent.map(({ id }) => id) } };
    const countRows = () => mongo.db.collection('inbox').countDocuments(rows);
    await until(async () => (await countRows()) === sent.length);
    await device.connect();
    const arrivals = await device.waitFor(sent.length);
    expect(arrivals.map(({ payload }) => payload)).toEqual(sent.map(({ payload }) => payload));
  });

  test('loses no scheduled push, which still is not early', async () => {
    const device = await connectedDevice();
    const schedule = Math.floor(Date.now() / 1_000) + 4;
    const push = await send(stack, device.token, { schedule });
    await emptyRedis(redis);
    // And once more, in case something was added only after the response.
    await until(() => Date.now() > schedule * 1_000 - 1_500);
    await emptyRedis(redis);
    const [arrival] = await device.waitFor(1);
    const arrivedAt = performance.timeOrigin + (arrival?.receivedAtMs ?? 0);
    expect(arrivedAt).toBeGreaterThanOrEqual(schedule * 1_000);
    await untilOutcome(stack, push.id, [device.token], 'delivered');
  });
});

async function newDevice(): Promise<MqttDevice> {
  const device = await newMqttDevice(stack.dev);
  devices.push(device);
  return device;
}

/** A device with a live connection: until its inbox was read, right after CONNACK, a push goes through that. */
async function connectedDevice(): Promise<MqttDevice> {
  const device = await newDevice();
  await device.connect();
  for (const arrivals of [1, 2]) {
    await send(stack, device.token);
    await device.waitFor(arrivals);
  }
  device.arrivals.splice(0);
  return device;
}

/** Kills the workers with SIGKILL, and proves that none had settled; new ones come. */
async function killWorkerWithClaim(push: string): Promise<void> {
  const killed = PAIR.map((index) => stack.kill('delivery-worker', 'SIGKILL', index));
  const claimedPush = await mongo.db.collection<{ _id: string }>('pushes').findOne({ _id: push });
  for (const [index, pid] of killed.entries())
    await stack.waitForRestart('delivery-worker', pid, index);
  expect(claimedPush).toMatchObject({
    state: 'open',
    work: { state: 'ready', claim: expect.anything() },
  });
}

/** Suspends workers and schedulers during a task: new pushes stay where the API has stored them. */
async function whileNoJobIsTaken<T>(task: () => Promise<T>): Promise<T> {
  await until(async () => (await redis.llen('bull:send:active')) === 0);
  const services = ['scheduler', 'delivery-worker'];
  const frozen = services.flatMap((service) => PAIR.map((index) => ({ service, index })));
  return whileFrozen(stack, frozen, task);
}

/** The keys of a push's jobs; undefined when there is none. */
async function jobsOf(push: string): Promise<string[] | undefined> {
  const keys = await listKeys(redis, `*${push}*`);
  return keys.length > 0 ? keys : undefined;
}

/** Sends one more push, and shows that it is all that still comes. */
async function expectOnly(some: readonly MqttDevice[], sofar: number): Promise<void> {
  await send(
    stack,
    some.map(({ token }) => token),
  );
  for (const device of some) {
    expect(await device.waitFor(sofar + 1)).toHaveLength(sofar + 1);
  }
}
