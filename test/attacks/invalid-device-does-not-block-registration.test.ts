import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { postWithoutKey } from '../support/api/keyless-calls.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { registerDevice } from '../support/register-device.ts';
import { type Stack, startStack } from '../support/stack.ts';

const INVALID_TOKEN = 'weird';

let stack: Stack;
let mongo: TestMongo;
beforeAll(async () => {
  stack = await startStack(ONLY_API);
  mongo = await openMongo(stack.dev);
});
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
});

const register = (fcmToken: string) =>
  postWithoutKey(stack.dev.api, '/register', {
    appId: stack.dev.app,
    platform: 'android',
    fcmToken,
  });

test('a document that MongoDB refuses fails only its own device', async () => {
  // Stands for any document that MongoDB refuses to store.
  const validator = { 'provider.address': { $ne: INVALID_TOKEN } };
  await mongo.db.command({ collMod: 'devices', validator });
  for (let i = 0; i < 3; i += 1) expect((await register(INVALID_TOKEN)).status).toBe(503);
  await registerDevice(stack.dev);
  expect((await register('plain')).status).toBe(200);
});

test('many devices that claim one address are no outage', async () => {
  const all = await Promise.all(Array.from({ length: 100 }, () => register('contested')));
  // Some of so many at once get a 503 and are repeated.
  for (const { status } of all) expect([200, 503]).toContain(status);
  await registerDevice(stack.dev);
});
