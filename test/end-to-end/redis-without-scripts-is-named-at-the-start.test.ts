import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { startDeliveryWorker } from '../support/delivery-worker.ts';
import { send, untilOutcome } from '../support/end-to-end/pushes.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import type { ServiceProcess } from '../support/operators/service-process.ts';
import { openRedis } from '../support/redis.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

let stack: Stack;
let redis: Redis;
let worker: ServiceProcess | undefined;
let device: MqttDevice;
beforeAll(async () => {
  stack = await startStack({ deliveryWorkers: 0 });
  redis = await openRedis(stack.dev);
  await redis.acl('SETUSER', 'noscript', 'on', '>secret', '~*', '&*', '+@all', '-eval');
  device = await newMqttDevice(stack.dev);
});
afterAll(async () => {
  await device?.disconnect();
  await worker?.stop();
  redis?.disconnect();
  await stack?.stop();
});

test('a delivery-worker waits for a Redis that runs scripts, says so, and then delivers', async () => {
  await device.connect();
  const push = await send(stack, device.token);
  const PRESENCE_REDIS_URL = stack.dev.redis.replace('//', '//noscript:secret@');
  const started = await startDeliveryWorker(stack, { PRESENCE_REDIS_URL });
  worker = started;
  await until(() => started.output().includes('NOPERM'), { what: 'the refusal in the log' });
  expect((await started.probe('/readyz')).status).toBe(503);
  expect(device.arrivals).toEqual([]);
  await redis.acl('SETUSER', 'noscript', '+eval');
  await started.untilReady();
  await untilOutcome(stack, push.id, [device.token], 'delivered');
  expect(device.arrivals.map(({ payload }) => payload)).toEqual([push.payload]);
});
