import { expect, test } from '@jest/globals';
import { encodeApns } from '../../src/channels/apns/payload.ts';
import { encodeFcm, encodeFcmForApple } from '../../src/channels/fcm/payload.ts';
import type { ProviderPush } from '../../src/deliver/provider.ts';
import { createPush, PUSH_ID } from '../pushes.ts';

const NOW = Date.UTC(2030, 0, 1);
const DAY = 86_400_000;

function createMessage(changes: Partial<ProviderPush>) {
  const push = createPush({ expiresAt: new Date(NOW + DAY), ...changes });
  return encodeFcm(push).createRequest('TOKEN', NOW).message;
}

function createAppleMessage(changes: Partial<ProviderPush>) {
  const encoded = encodeFcmForApple(createPush(changes), NOW);
  const { message, apnsPayload = '' } = encoded.createRequest('TOKEN', NOW);
  return { message, payload: JSON.parse(apnsPayload) };
}

test('data is sent as one string', () => {
  const data = '{ "n": 12345678901234567890 }';
  const expiresAt = new Date(NOW + 5_000);
  expect(createMessage({ data, expiresAt, options: { collapse_key: 'ключ' } })).toEqual({
    token: 'TOKEN',
    data: { payload: data, _pushyId: PUSH_ID },
    android: { priority: 'high', ttl: 5_000, collapseKey: 'ключ' },
  });
});

test.each([
  ['28 days at most', { expiresAt: new Date(NOW + 365 * DAY) }, 28 * DAY],
  ['never below 0', { expiresAt: new Date(NOW - 1) }, 0],
  ['0 for devices that are reachable now', { expiresAt: new Date(NOW + DAY), nowOnly: true }, 0],
])('the time to live is %s', (_, changes, ttl) => {
  expect(createMessage(changes).android?.ttl).toBe(ttl);
});

test('the priority is high unless the push only wakes the app', () => {
  const priorityOf = (options: ProviderPush['options']) =>
    createMessage({ options }).android?.priority;
  expect(priorityOf({ content_available: true })).toBe('normal');
  expect(priorityOf({ content_available: true, notification: { category: 'c' } })).toBe('normal');
  expect(priorityOf({ content_available: true, notification: { title: 'T' } })).toBe('high');
  expect(priorityOf({ notification: {} })).toBe('high');
});

/** Options of a push that wakes the app, and shows nothing but what `data` has. */
const WAKES = { content_available: true };

test.each([
  ['{"title":"T","message":"M","n":1}', { title: 'T', body: 'M' }],
  ['{"message":"M"}', { body: 'M' }],
  ['{"title":"T","message":{"message":"M"}}', { title: 'T' }],
  ['{"title":"","message":null}', undefined],
  ['{"__proto__":{"title":"T"},"in":{"message":"M"}}', undefined],
])('of %s an app that asks for it shows %j', (data, shown) => {
  const asked = { data, hasFcmNotification: true, options: WAKES };
  const dataOnly = createMessage({ data, options: WAKES });
  expect(createMessage(asked)).toEqual({
    ...dataOnly,
    ...(shown && { notification: shown, android: { ...dataOnly.android, priority: 'high' } }),
  });
  expect(dataOnly).not.toHaveProperty('notification');
  expect(createAppleMessage(asked)).toMatchObject({
    message: { apns: { headers: { 'apns-push-type': shown ? 'alert' : 'background' } } },
    payload: { aps: { ...(shown && { alert: shown }), 'content-available': 1 } },
  });
  expect(createAppleMessage({ data, options: WAKES }).payload.aps).toEqual({
    'content-available': 1,
  });
});

test.each([
  [{ title: 'Own' }, { alert: { title: 'Own' } }],
  [{ title_loc_key: 'k' }, { alert: { 'title-loc-key': 'k' } }],
  [
    { title: '', badge: 1 },
    { alert: { title: 'T', body: 'M' }, badge: 1 },
  ],
])('on iOS the alert of %j comes before the texts of data', (notification, aps) => {
  const data = '{"title":"T","message":"M"}';
  const push = { data, hasFcmNotification: true, options: { notification } };
  expect(createAppleMessage(push).payload.aps).toEqual(aps);
});

test('a message for iOS is what APNs gets, with nothing for Android', () => {
  const options = { collapse_key: 'news', notification: { title: 'T' } };
  const changes = { data: '{ "n": 12345678901234567890, "e": 1.0 }', options };
  const push = createPush({ ...changes, expiresAt: new Date(NOW + 5_000) });
  expect(encodeFcmForApple(push, NOW).createRequest('TOKEN', NOW)).toEqual({
    message: {
      token: 'TOKEN',
      apns: {
        headers: {
          ...{ 'apns-priority': '10', 'apns-push-type': 'alert', 'apns-collapse-id': 'news' },
          'apns-expiration': String(NOW / 1_000 + 5),
        },
      },
    },
    apnsPayload: encodeApns(push, { nowMs: NOW }).body,
  });
});

test('on iOS a push without options has an aps of no effect, since FCM refuses an empty one', () => {
  expect(createAppleMessage({}).payload).toEqual({
    n: 1,
    aps: { 'interruption-level': 'active' },
    _pushyId: PUSH_ID,
  });
});

test.each([
  ['Android', encodeFcm, 0],
  ['Android with a notification', encodeFcm, '{"title":"T"}'.length],
  ['iOS', (push: ProviderPush) => encodeFcmForApple(push, NOW), undefined],
] as const)('the limit of %s is 4,096 bytes, keys included', (_, encode, shownBytes) => {
  const createWithText = (text: string) =>
    createPush({ data: `{"title":"T","t":"${text}"}`, hasFcmNotification: shownBytes !== 0 });
  const bytesOf = (text: string) => Buffer.byteLength(text);
  const empty = createWithText('');
  const overheadBytes =
    shownBytes === undefined
      ? bytesOf(encodeFcmForApple(empty, NOW).createRequest('', NOW).apnsPayload ?? '')
      : bytesOf(`${empty.data}payload_pushyId${PUSH_ID}`) + shownBytes;
  const text = 'a'.repeat(4_096 - overheadBytes);
  expect(encode(createWithText(text)).isTooLarge).toBe(false);
  expect(encode(createWithText(`${text}a`)).isTooLarge).toBe(true);
  expect(encode(createWithText(`${text.slice(1)}é`)).isTooLarge).toBe(true);
});

test.each([
  [{ aps: { alert: 'Hi' } }, 'alert', '10'],
  [{ aps: { badge: 1 } }, 'alert', '10'],
  [{ aps: { 'content-available': 1 } }, 'background', '5'],
])(
  'on iOS with %j of its own for FCM a push that wakes the app is of type %s',
  (payload, type, priority) => {
    const changes = {
      options: { content_available: true },
      patches: { fcm: { apns: { payload } } },
    };
    const { headers } =
      encodeFcmForApple(createPush(changes), NOW).createRequest('TOKEN', NOW).message.apns ?? {};
    expect(headers).toMatchObject({ 'apns-push-type': type, 'apns-priority': priority });
  },
);
