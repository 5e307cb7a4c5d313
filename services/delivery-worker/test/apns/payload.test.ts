import { expect, test } from '@jest/globals';
import { encodeApns } from '../../src/channels/apns/payload.ts';
import type { ProviderPush } from '../../src/deliver/provider.ts';
import { createPush, PUSH_ID } from '../pushes.ts';

const NOW = Date.UTC(2030, 0, 1);
const DAY = 86_400_000;
/** A notification of which an iPhone shows and plays nothing. */
const SHOWS_NOTHING = {
  ...{ title: '', body: '', sound: '', loc_key: '', title_loc_key: '', loc_args: ['a'] },
  ...{ category: 'c', thread_id: 't', interruption_level: 'passive' as const },
};

function encode(changes: Partial<ProviderPush>) {
  return encodeApns(createPush(changes), { nowMs: NOW });
}

const collapseIdOf = (changes: Partial<ProviderPush>) =>
  encode(changes).headers['apns-collapse-id'];

function encodeAps(options: ProviderPush['options']): unknown {
  return JSON.parse(encode({ options }).body).aps;
}

test.each<[NonNullable<ProviderPush['options']['notification']>, object]>([
  [{}, {}],
  [{ title: 'T', body: 'B' }, { alert: { title: 'T', body: 'B' } }],
  [
    { badge: 0, category: 'c' },
    { badge: 0, category: 'c' },
  ],
  [{ thread_id: 't' }, { 'thread-id': 't' }],
  [{ interruption_level: 'passive' }, { 'interruption-level': 'passive' }],
  [{ loc_key: 'k', loc_args: ['a'] }, { alert: { 'loc-key': 'k', 'loc-args': ['a'] } }],
  [
    { title_loc_key: 'k', title_loc_args: ['a'] },
    { alert: { 'title-loc-key': 'k', 'title-loc-args': ['a'] } },
  ],
  [{ sound: 'ping.aiff' }, { sound: 'ping.aiff' }],
  [
    { sound: { critical: true, name: 'a', volume: 0.5 } },
    { sound: { critical: 1, name: 'a', volume: 0.5 } },
  ],
  [{ sound: { critical: false } }, { sound: { critical: 0 } }],
  [{ sound: { critical: 1 } }, { sound: { critical: 1 } }],
  [{ sound: { name: 'a' } }, { sound: { name: 'a' } }],
])('a notification of %j is %j', (notification, aps) => {
  expect(encodeAps({ notification })).toEqual(aps);
});

test('the flags are in aps', () => {
  expect(encodeAps({ content_available: true, mutable_content: true })).toEqual({
    'content-available': 1,
    'mutable-content': 1,
  });
  expect(encodeAps({ content_available: false, mutable_content: false })).toEqual({});
});

test('a background push has no alert and no sound, not even an empty one', () => {
  expect(encodeAps({ content_available: true, notification: SHOWS_NOTHING })).toEqual({
    ...{ category: 'c', 'thread-id': 't', 'interruption-level': 'passive' },
    'content-available': 1,
  });
});

test('of two aps or ids, ours is sent, and the rest of data is unchanged', () => {
  const data = '{"z":1.0,"\\u0061ps":{"alert":"theirs"},"_pushyId":7,"aps":1,"in":{"aps":1}}';
  expect(encode({ data, options: { notification: { badge: 1 } } }).body).toBe(
    `{"z":1.0,"in":{"aps":1},"aps":{"badge":1},"_pushyId":"${PUSH_ID}"}`,
  );
});

test('data is unchanged and a sibling of aps', () => {
  const { body } = encode({ data: '{ "n": 12345678901234567890, "e": 1.0 }' });
  expect(body).toBe(`{"n": 12345678901234567890, "e": 1.0,"aps":{},"_pushyId":"${PUSH_ID}"}`);
});

test.each([
  [{}, 'alert', 10],
  [{ content_available: true }, 'background', 5],
  [{ content_available: true, notification: {} }, 'background', 5],
  [{ content_available: true, notification: SHOWS_NOTHING }, 'background', 5],
  [{ content_available: true, notification: { badge: 0 } }, 'alert', 10],
  [{ content_available: true, notification: { sound: 'ping.aiff' } }, 'alert', 10],
  [{ content_available: true, notification: { sound: { critical: 1 } } }, 'alert', 10],
  [{ content_available: true, notification: { loc_key: 'k' } }, 'alert', 10],
  [{ content_available: true, notification: { title_loc_key: 'k' } }, 'alert', 10],
  [{ content_available: true, notification: { body: 'B', title: '' } }, 'alert', 10],
  [{ content_available: false, notification: SHOWS_NOTHING }, 'alert', 10],
  [{ notification: { title: 'T' } }, 'alert', 10],
] as const)('options %j make a push of type %s and priority %d', (options, pushType, priority) => {
  expect(encode({ options }).headers).toMatchObject({
    'apns-push-type': pushType,
    'apns-priority': String(priority),
  });
});

test.each([
  ['its expiry', { expiresAt: new Date(NOW + 1_999) }, NOW / 1_000 + 1],
  ['30 days at most', { expiresAt: new Date(NOW + 365 * DAY) }, (NOW + 30 * DAY) / 1_000],
  ['0 for devices that are reachable now', { expiresAt: new Date(NOW), nowOnly: true }, 0],
])('APNs stores a push until %s', (_, changes, expiry) => {
  expect(encode(changes).headers['apns-expiration']).toBe(String(expiry));
});

test('the collapse id is a valid header; without a collapse key it is the id of the push', () => {
  expect(collapseIdOf({})).toBe(PUSH_ID);
  expect(collapseIdOf({ options: { collapse_key: 'news:1' } })).toBe('news:1');
  const hashed = collapseIdOf({ options: { collapse_key: 'ключ' } });
  expect(hashed).toMatch(/^[\w-]{43}$/);
  expect(collapseIdOf({ options: { collapse_key: 'ключ' } })).toBe(hashed);
});

test('the limit is 4,096 bytes, not characters', () => {
  const overheadBytes = Buffer.byteLength(encode({ data: '{"t":""}' }).body);
  const text = 'a'.repeat(4_096 - overheadBytes);
  expect(encode({ data: `{"t":"${text}"}` }).isTooLarge).toBe(false);
  expect(encode({ data: `{"t":"${text}a"}` }).isTooLarge).toBe(true);
  expect(encode({ data: `{"t":"${text.slice(1)}é"}` }).isTooLarge).toBe(true);
});
