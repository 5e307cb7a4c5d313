import { existsSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { openMongo } from './mongo.ts';
import { newMqttDevice } from './mqtt-device.ts';
import { openRedis } from './redis.ts';
import { isAlive } from './stack/processes.ts';
import { type Stack, startStack } from './stack.ts';

const UNKNOWN_PUSH = '/pushes/000000000000000000000000';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack();
});
afterAll(() => stack?.stop());

test('a stack responds at every address it names', async () => {
  const redis = await openRedis(stack.dev);
  const mongo = await openMongo(stack.dev);
  expect(await redis.ping()).toBe('PONG');
  expect(await mongo.serverStatus()).toHaveProperty('connections');
  const { status, json } = await stack.api('GET', UNKNOWN_PUSH);
  expect({ status, json }).toMatchObject({ status: 400, json: { code: 'INVALID_PUSH_ID' } });
  redis.disconnect();
  await mongo.close();
});

test('a new device connects', async () => {
  const device = await newMqttDevice(stack.dev);
  await device.connect();
  expect(device.connected).toBe(true);
  await device.disconnect();
});

test('a killed service is restarted with another pid', async () => {
  const old = stack.kill('api', 'SIGKILL');
  expect(await stack.waitForRestart('api', old)).not.toBe(old);
  expect((await stack.api('GET', UNKNOWN_PUSH)).status).toBe(400);
});

test('nothing is left of a stopped stack', async () => {
  const pids = stack.dev.processes.map(({ pid }) => pid);
  await stack.stop();
  expect(pids.filter(isAlive)).toEqual([]);
  expect(existsSync(stack.home)).toBe(false);
});
