import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { ApiErrorCode } from '../../packages/core/src/api-error.ts';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { postWithoutKey } from '../support/api/keyless-calls.ts';
import { appleAddress, webSubscription } from '../support/api/provider-addresses.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { registerDevice } from '../support/register-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

type Case = [what: string, method: string, path: string, body: unknown, code: ApiErrorCode];

const TOKEN = '$TOKEN';
const DEEP_JSON = `${'{"a":'.repeat(2_100)}1${'}'.repeat(2_100)}`;
/** As deep as a request may be. */
const NESTED_JSON = `${'{"a":'.repeat(2_047)}1${'}'.repeat(2_047)}`;
const QUERY_OPERATOR = { $ne: null };
const RECEIVER = 'https://receiver.example/hook';

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

function push(what: string, fields: object, code: ApiErrorCode = 'INVALID_PARAM'): Case {
  return [`push: ${what}`, 'POST', '/push', { to: TOKEN, data: {}, ...fields }, code];
}

/** An object in so many others. */
const nest = (levels: number): object => (levels === 0 ? {} : { a: nest(levels - 1) });

function topics(verb: string, what: string, fields: object, code: ApiErrorCode): Case {
  const body = { token: TOKEN, topics: ['a'], ...fields };
  return [`${verb}: ${what}`, 'POST', `/topics/${verb}`, body, code];
}

function webhooks(what: string, body: unknown): Case[] {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return [
    [`add a webhook: ${what}`, 'POST', '/webhooks', text, 'INVALID_PARAM'],
    [`edit a webhook: ${what}`, 'PATCH', `/webhooks/${'f'.repeat(24)}`, text, 'INVALID_PARAM'],
  ];
}

const CASES: Case[] = [
  ['push: no recipient', 'POST', '/push', { data: {} }, 'INVALID_PARAM'],
  push('an empty recipient', { to: '' }, 'NO_RECIPIENTS'),
  push('an object as recipient', { to: {} }),
  push('an operator as recipient', { to: QUERY_OPERATOR }),
  push('an operator among tokens', { to: [QUERY_OPERATOR] }),
  push('a number among tokens', { tokens: [1] }),
  push('a topic without name', { to: '/topics/' }),
  push('no data', { data: undefined }),
  push('a list as data', { data: [] }),
  push('text as data', { data: '{"a":1}' }),
  ['push: data too deep', 'POST', '/push', `{"to":"x","data":${DEEP_JSON}}`, 'INVALID_PARAM'],
  [
    'push: a switch that is nested deep',
    'POST',
    '/push',
    `{"to":"${TOKEN}","data":{},"content_available":${NESTED_JSON}}`,
    'INVALID_PARAM',
  ],
  push('an empty collapse key', { collapse_key: '' }),
  push('a long collapse key', { collapse_key: '😀'.repeat(33) }),
  push('text as a switch', { content_available: 'true' }),
  push('a notification that is text', { notification: 'x' }),
  push('a badge that is text', { notification: { badge: '1' } }),
  push('an interruption level of our own', { notification: { interruption_level: 'loud' } }),
  push('loc_args that are text', { notification: { loc_args: 'x' } }),
  push('less than a minute of activity', { to: '/topics/a', active_within: 59 }),
  push('activity for a device', { active_within: 60 }),
  push('a priority of its own', { priority: 'urgent' }),
  ...['apns', 'fcm', 'web_push'].flatMap((name) => [
    push(`${name} that is a list`, { [name]: [] }),
    push(`${name} that is text`, { [name]: '{}' }),
    push(`${name} with a field of nobody`, { [name]: { $where: 'x' } }),
    push(`${name} with a long text`, { [name]: { payload: { text: 'x'.repeat(8_192) } } }),
    push(`${name} that is nested deep`, { [name]: { payload: nest(40) } }),
  ]),
  ...['GET', 'DELETE'].flatMap((method) =>
    [
      ['unknown', 'f'.repeat(24)],
      ['too short', 'f'.repeat(23)],
      ['capital letters', 'F'.repeat(24)],
      ['a way up', '%2e%2e%2fx'],
      ['NUL', '%00'],
    ].map(([what, id]): Case => {
      return [`${method} a push: ${what}`, method, `/pushes/${id}`, undefined, 'INVALID_PUSH_ID'];
    }),
  ),
  ['device: junk', 'GET', '/devices/junk!', undefined, 'INVALID_DEVICE_TOKEN'],
  ['device: an encoded slash', 'GET', '/devices/a%2Fb', undefined, 'INVALID_DEVICE_TOKEN'],
  ['device: an operator', 'GET', '/devices/[$ne]=1', undefined, 'INVALID_DEVICE_TOKEN'],
  ['device: endless', 'GET', `/devices/${'a'.repeat(5_000)}`, undefined, 'INVALID_DEVICE_TOKEN'],
  ['presence: none', 'POST', '/devices/presence', { tokens: [] }, 'INVALID_PARAM'],
  ['presence: operator', 'POST', '/devices/presence', { tokens: QUERY_OPERATOR }, 'INVALID_PARAM'],
  ...['subscribe', 'unsubscribe'].flatMap((verb) => [
    topics(verb, 'no topic', { topics: [] }, 'INVALID_PARAM'),
    topics(verb, 'an operator as token', { token: QUERY_OPERATOR }, 'INVALID_PARAM'),
    topics(verb, 'no token', { token: undefined }, 'INVALID_PARAM'),
    topics(verb, 'an unknown token', { token: 'unknown' }, 'INVALID_DEVICE_TOKEN'),
    topics(verb, 'a token that ends an id', { token: 'a:b' }, 'INVALID_DEVICE_TOKEN'),
  ]),
  ...['0', '-1', '1.5', '1e9', '2;', '', 'x', '10000000'].map(
    (page): Case => [`page ${page}`, 'GET', `/topics/a?page=${page}`, undefined, 'INVALID_PARAM'],
  ),
  ...['outcomes', 'recipients', `recipients/${'a'.repeat(22)}`].flatMap((what): Case[] =>
    ['f'.repeat(24), 'F'.repeat(24), '%00', '[$ne]=1'].map((id) => [
      `${what} of ${id}`,
      'GET',
      `/pushes/${id}/${what}`,
      undefined,
      'INVALID_PUSH_ID',
    ]),
  ),
  ...[
    ...['outcome=lost', 'outcome=', 'outcome[$ne]=sent&outcome=owed', 'outcome=sent&outcome=sent'],
    ...['page=', 'page=x', 'page=LTAwMDAwMC4tMQ', `page=${'a'.repeat(3_000)}`],
  ].map((query): Case => {
    const path = `/pushes/${'f'.repeat(24)}/recipients?${query}`;
    return [`recipients?${query.slice(0, 40)}`, 'GET', path, undefined, 'INVALID_PARAM'];
  }),
  ...['from=x', 'to=-1', 'from=1e9', 'to=99999999999', 'state=owed', 'page=x', 'from=1&from=2'].map(
    (query): Case => [`pushes?${query}`, 'GET', `/pushes?${query}`, undefined, 'INVALID_PARAM'],
  ),
  ...webhooks('nothing', {}),
  ...webhooks('nothing but null', { url: null, events: null }),
  ...webhooks('a list', '[]'),
  ...webhooks('an address without a scheme', { url: 'receiver.example/hook' }),
  ...webhooks('another scheme', { url: 'ftp://receiver.example/hook' }),
  ...webhooks('a password', { url: 'https://user:word@receiver.example/hook' }),
  ...webhooks('a long address', { url: `https://receiver.example/${'x'.repeat(2_048)}` }),
  ...webhooks('an operator as address', { url: QUERY_OPERATOR }),
  ...webhooks('no event', { url: RECEIVER, events: [] }),
  ...webhooks('an unknown event', { url: RECEIVER, events: ['push.sent'] }),
  ...webhooks('a text as events', { url: RECEIVER, events: 'push.finished' }),
  ...webhooks('too many events', { url: RECEIVER, events: Array(13).fill('push.finished') }),
  ...['', '{"from":1}', '{"from":2,"to":1}', '{"from":-1,"to":1}', '{"from":"a","to":1}'].map(
    (body): Case => [
      `replay ${body}`,
      'POST',
      `/webhooks/${'f'.repeat(24)}/replay`,
      body,
      'INVALID_PARAM',
    ],
  ),
  ...['f'.repeat(24), 'F'.repeat(24), '%00', '[$ne]=1'].flatMap((id): Case[] => [
    ...['rotate', 'test', 'off', 'on'].map((action): Case => {
      return [
        `${action} ${id}`,
        'POST',
        `/webhooks/${id}/${action}`,
        undefined,
        'INVALID_WEBHOOK_ID',
      ];
    }),
    [`delete webhook ${id}`, 'DELETE', `/webhooks/${id}`, undefined, 'INVALID_WEBHOOK_ID'],
    [`edit ${id}`, 'PATCH', `/webhooks/${id}`, { events: ['push.finished'] }, 'INVALID_WEBHOOK_ID'],
  ]),
  ['topic: a space', 'GET', '/topics/a%20b', undefined, 'INVALID_PARAM'],
];

/** Everything that is kept of the app, as how much there is of it. */
async function countDocuments(): Promise<Record<string, number>> {
  const { app } = stack.dev;
  const own = { app };
  const beginsWith = (start: string) => ({ _id: new RegExp(`^${start}:`) as never });
  const filters = {
    ...{ pushes: own, batches: own, inbox: beginsWith(token), devices: own, webhooks: own },
    ...{ subscriptions: beginsWith(app), topics: beginsWith(app), anchors: beginsWith(app) },
  };
  const counts = Object.entries(filters).map(async ([name, filter]) => [
    name,
    await mongo.db.collection(name).countDocuments(filter),
  ]);
  return Object.fromEntries(await Promise.all(counts));
}

test.each(CASES)('%s', async (_what, method, path, body, code) => {
  const before = await countDocuments();
  const text = typeof body === 'object' ? JSON.stringify(body) : (body as string | undefined);
  expectApiError(await stack.api(method, path, text?.replaceAll(TOKEN, token)), code);
  expect(await countDocuments()).toEqual(before);
});

test('payloads with names of database operators and prototypes are returned unchanged', async () => {
  const data = '{"__proto__":{"a":1},"$set":{"b.c":2},"constructor":null,"":[{"$ne":""}]}';
  const { json } = await stack.api('POST', '/push', `{"to":"${token}","data":${data}}`);
  const { text } = await stack.api('GET', `/pushes/${String(json.id)}`);
  expect(text).toContain(`"payload":${data}`);
});

test('an unknown field is ignored at any depth', async () => {
  const body = `{"to":"${token}","data":{},"unknown":${NESTED_JSON}}`;
  expect((await stack.api('POST', '/push', body)).json.info).toEqual({ devices: 1, failed: [] });
});

describe('null is treated as absent', () => {
  /** Unset fields as serializers of Java and C# write them. */
  const NOTIFICATION = Object.fromEntries(
    [
      ...['title', 'badge', 'sound', 'category', 'thread_id', 'interruption_level'],
      ...['loc_key', 'loc_args', 'title_loc_key', 'title_loc_args'],
    ].map((name) => [name, null]),
  );

  const pushWith = (fields: object) =>
    stack.api('POST', '/push', { to: token, data: {}, ...fields });
  const pushOf = (id: unknown) =>
    mongo.db.collection<{ _id: string; options?: object; data: string }>('pushes').findOne({
      _id: String(id),
    });

  test('of a push: its time to live is the default, and the iOS alert has only the given fields', async () => {
    const before = Math.floor(Date.now() / 1_000);
    const sound = { critical: 1, name: null, volume: null };
    const notification = { ...NOTIFICATION, body: 'x', sound };
    const { json } = await pushWith({ time_to_live: null, active_within: null, notification });
    const { json: status } = await stack.api<{ push: { date: number; expiration: number } }>(
      'GET',
      `/pushes/${String(json.id)}`,
    );
    const { date, expiration } = status.push;
    expect(expiration - date).toBe(30 * 86_400);
    expect(date).toBeGreaterThanOrEqual(before);
    expect(date).toBeLessThanOrEqual(Math.ceil(Date.now() / 1_000));
    const { options } = (await pushOf(json.id)) ?? {};
    expect(options).toEqual({ notification: { body: 'x', sound: { critical: 1 } } });
  });

  test('of a push: any of three fields may name the recipients', async () => {
    const given = { to: null, tokens: null, registration_ids: [token] };
    expect(await pushWith(given)).toMatchObject({ status: 200 });
    expectApiError(await pushWith({ to: null }), 'INVALID_PARAM');
  });

  test('data is unchanged', async () => {
    const data = '{"a":null,"b":[null,{"c":null}]}';
    const { json } = await stack.api('POST', '/push', `{"to":"${token}","data":${data}}`);
    expect((await pushOf(json.id))?.data).toBe(data);
  });

  test('required fields and entries of a list may not be null', async () => {
    expectApiError(await pushWith({ data: null }), 'INVALID_PARAM');
    expectApiError(await pushWith({ to: [token, null] }), 'INVALID_PARAM');
    expectApiError(await pushWith({ notification: { loc_args: ['a', null] } }), 'INVALID_PARAM');
    const topics = { token, topics: ['a', null] };
    expectApiError(await stack.api('POST', '/topics/subscribe', topics), 'INVALID_PARAM');
    const nullToken = { token: null, topics: ['a'] };
    expectApiError(await stack.api('POST', '/topics/subscribe', nullToken), 'INVALID_PARAM');
    expectApiError(
      await stack.api('POST', '/devices/presence', { tokens: [null] }),
      'INVALID_PARAM',
    );
  });

  test('of a registration', async () => {
    const { app: appId, api } = stack.dev;
    const noApple = { pushToken: null, pushEnvironment: null, pushBundle: null, pushKind: null };
    const bodies = [
      { platform: 'electron', appId, sdk: null },
      { platform: 'android', appId, sdk: null, fcmToken: null },
      { platform: 'ios', appId, app: null, ...noApple, expires_in: null },
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
});
