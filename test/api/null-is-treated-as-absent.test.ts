import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { postWithoutKey } from '../support/api/keyless-calls.ts';
import { appleAddress, webSubscription } from '../support/api/provider-addresses.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { registerDevice } from '../support/register-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

/** Unset fields as serializers of Java and C# write them. */
const NOTIFICATION = Object.fromEntries(
  [
    ...['title', 'badge', 'sound', 'category', 'thread_id', 'interruption_level'],
    ...['loc_key', 'loc_args', 'title_loc_key', 'title_loc_args'],
  ].map((name) => [name, null]),
);

let stack: SharedStack;
let mongo: TestMongo;
let token: string;
beforeAll(async () => {
  stack = await useSharedStack();
  mongo = await openMongo(stack.dev);
  ({ token } = await registerDevice(stack.dev));
});
afterAll(async () => {
  await mongo?.close();
});

const push = (fields: object) => stack.api('POST', '/push', { to: token, data: {}, ...fields });
const pushOf = (id: unknown) =>
  mongo.db.collection<{ _id: string; options?: object; data: string }>('pushes').findOne({
    _id: String(id),
  });

test('of a push: its time to live is the default, and the iOS alert has only the given fields', async () => {
  const sound = { critical: 1, name: null, volume: null };
  const notification = { ...NOTIFICATION, body: 'x', sound };
  const { json } = await push({ time_to_live: null, notification });
  const { json: status } = await stack.api<{ push: { date: number; expiration: number } }>(
    'GET',
    `/pushes/${String(json.id)}`,
  );
  expect(status.push.expiration - status.push.date).toBe(30 * 86_400);
  const { options } = (await pushOf(json.id)) ?? {};
  expect(options).toEqual({ notification: { body: 'x', sound: { critical: 1 } } });
});

test('of a push: any of three fields may name the recipients', async () => {
  const given = { to: null, tokens: null, registration_ids: [token] };
  expect(await push(given)).toMatchObject({ status: 200 });
  expectApiError(await push({ to: null }), 'INVALID_PARAM');
});

test('data is unchanged', async () => {
  const data = '{"a":null,"b":[null,{"c":null}]}';
  const { json } = await stack.api('POST', '/push', `{"to":"${token}","data":${data}}`);
  expect((await pushOf(json.id))?.data).toBe(data);
});

test('required fields and entries of a list may not be null', async () => {
  expectApiError(await push({ data: null }), 'INVALID_PARAM');
  expectApiError(await push({ to: [token, null] }), 'INVALID_PARAM');
  expectApiError(await push({ notification: { loc_args: ['a', null] } }), 'INVALID_PARAM');
  const topics = { token, topics: ['a', null] };
  expectApiError(await stack.api('POST', '/topics/subscribe', topics), 'INVALID_PARAM');
  const nullToken = { token: null, topics: ['a'] };
  expectApiError(await stack.api('POST', '/topics/subscribe', nullToken), 'INVALID_PARAM');
  expectApiError(await stack.api('POST', '/devices/presence', { tokens: [null] }), 'INVALID_PARAM');
});

test('of a registration', async () => {
  const { app: appId, api } = stack.dev;
  const noApple = { pushToken: null, pushEnvironment: null, pushBundle: null };
  const bodies = [
    { platform: 'electron', appId, sdk: null },
    { platform: 'android', appId, sdk: null, fcmToken: null },
    { platform: 'ios', appId, app: null, ...noApple },
    { platform: 'web', appId, app: null, subscription: webSubscription() },
  ];
  for (const body of bodies) {
    expect(await postWithoutKey(api, '/register', body)).toMatchObject({ status: 200 });
  }
  const noName = { platform: 'ios', appId: null, app: null };
  expectApiError(await postWithoutKey(api, '/register', noName), 'INVALID_PARAM');
});

test('a push token of null removes the stored address', async () => {
  const { api, app: appId } = stack.dev;
  const address = appleAddress();
  const { json } = await postWithoutKey(api, '/register', { platform: 'ios', appId, ...address });
  const addressOf = async () => {
    const devices = mongo.db.collection<{ _id: string; provider?: object }>('devices');
    return (await devices.findOne({ _id: String(json.token) }))?.provider;
  };
  expect(await addressOf()).toMatchObject({ address: address.pushToken });
  const change = { ...json, pushToken: null, pushEnvironment: null, pushBundle: null };
  expect(await postWithoutKey(api, '/devices/token', change)).toMatchObject({ status: 200 });
  expect(await addressOf()).toBeUndefined();
});
