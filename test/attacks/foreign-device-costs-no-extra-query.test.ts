import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { apiOperationsDuring } from '../support/attacks/mongo-operations.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { registerDevice } from '../support/register-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

let stack: SharedStack;
let mongo: TestMongo;
let owner: TestTenant;
let otherTenant: TestTenant;
beforeAll(async () => {
  stack = await useSharedStack();
  mongo = await openMongo(stack.dev);
  owner = await createTestTenant(stack, { limit: null });
  otherTenant = await createTestTenant(stack, { limit: null });
});
afterAll(async () => {
  await mongo?.close();
});

test('GET /devices/<token> of another app causes no more queries than that of an absent device', async () => {
  const { token } = await registerDevice(owner.dev);
  const topics = Array.from({ length: 100 }, (_, n) => `topic-${n}`);
  await owner.api('POST', '/topics/subscribe', { token, topics });
  const rows = Array.from({ length: 500 }, (_, n) => {
    const push = n.toString(16).padStart(24, '0');
    return { _id: `${token}:${push}` as never, push, app: owner.app };
  });
  await mongo.db.collection('inbox').insertMany(rows);
  const sendRequest = (one: string) => otherTenant.api('GET', `/devices/${one}`);
  await sendRequest('warm-up');
  const absent = await apiOperationsDuring(mongo, async () =>
    expectApiError(await sendRequest('a'.repeat(token.length)), 'INVALID_DEVICE_TOKEN'),
  );
  const foreign = await apiOperationsDuring(mongo, async () =>
    expectApiError(await sendRequest(token), 'APP_MISMATCH'),
  );
  expect(foreign.operations).toEqual(absent.operations);
  // Both queries read the device: the first one for this app's, the second for the error.
  expect(foreign.documents).toBeLessThanOrEqual(absent.documents + 2);
  const own = await owner.api<{ subscriptions: string[] }>('GET', `/devices/${token}`);
  expect(own.json.subscriptions).toHaveLength(topics.length);
});
