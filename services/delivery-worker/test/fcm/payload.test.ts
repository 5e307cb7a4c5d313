import { expect, test } from '@jest/globals';
import { createTokenMessage, encodeFcm } from '../../src/channels/fcm/payload.ts';
import type { ProviderPush } from '../../src/deliver/provider.ts';
import { createPush, PUSH_ID } from '../pushes.ts';

const NOW = Date.UTC(2030, 0, 1);
const DAY = 86_400_000;

function createMessage(changes: Partial<ProviderPush>) {
  return createTokenMessage(encodeFcm(createPush(changes)), 'TOKEN', NOW);
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

test('the limit is 4,096 bytes, keys included', () => {
  const overheadBytes = Buffer.byteLength(`{"t":""}payload_pushyId${PUSH_ID}`);
  const text = 'a'.repeat(4_096 - overheadBytes);
  expect(encodeFcm(createPush({ data: `{"t":"${text}"}` })).isTooLarge).toBe(false);
  expect(encodeFcm(createPush({ data: `{"t":"${text}a"}` })).isTooLarge).toBe(true);
  expect(encodeFcm(createPush({ data: `{"t":"${text.slice(1)}é"}` })).isTooLarge).toBe(true);
});
