import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startDeliveryWorker } from '../support/delivery-worker.ts';
import { send, untilInbox, untilOutcome } from '../support/end-to-end/pushes.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import type { ServiceProcess } from '../support/operators/service-process.ts';
import { openRedis } from '../support/redis.ts';
import { type Stack, startStack } from '../support/stack.ts';

let stack: Stack;
let worker: ServiceProcess | undefined;
let device: MqttDevice;
beforeAll(async () => {
  stack = await startStack({ deliveryWorkers: 0 });
  const redis = await openRedis(stack.dev);
  await redis.acl('SETUSER', 'noscript', 'on', '>secret', '~*', '&*', '+@all', '-eval');
  redis.disconnect();
  device = await newMqttDevice(stack.dev);
});
afterAll(async () => {
  await device?.disconnect();
  await worker?.stop();
  await stack?.stop();
});

test('a Redis that refuses the script delays no push', async () => {
  await device.connect();
  const PRESENCE_REDIS_URL = stack.dev.redis.replace('//', '//noscript:secret@');
  worker = await startDeliveryWorker(stack, { PRESENCE_REDIS_URL });
  for (const count of [1, 2]) {
    const push = await send(stack, device.token);
    expect((await device.waitFor(count)).at(-1)?.payload).toBe(push.payload);
    await untilOutcome(stack, push.id, [device.token], 'delivered');
  }
  await device.disconnect();
  const { id } = await send(stack, device.token);
  await untilInbox(stack, device.token, [id]);
  expect(worker.output()).not.toMatch(/given back|NOPERM/);
});
