import { expect, test } from '@jest/globals';
import { encodeFcm, messageFor } from '../../src/channels/fcm/payload.ts';
import type { ProviderPush } from '../../src/deliver/provider.ts';
import { aPush, PUSH_ID } from '../a-push.ts';

const NOW = Date.UTC(2030, 0, 1);
const DAY = 86_400_000;

function messageOf(changes: Partial<ProviderPush>) {
  return messageFor(encodeFcm(aPush(changes)), 'TOKEN', NOW);
}

test('data goes as its text', () => {
  const data = '{ "n": 12345678901234567890 }';
  const expiresAt = new Date(NOW + 5_000);
  expect(messageOf({ data, expiresAt, options: { collapseKey: 'ключ' } })).toEqual({
    token: 'TOKEN',
    data: { payload: data, _pushyId: PUSH_ID },
    android: { priority: 'high', ttl: 5_000, collapseKey: 'ключ' },
  });
});

test.each([
  ['28 days at most', { expiresAt: new Date(NOW + 365 * DAY) }, 28 * DAY],
  ['never below 0', { expiresAt: new Date(NOW - 1) }, 0],
  ['0 for devices that are there now', { expiresAt: new Date(NOW + DAY), nowOnly: true }, 0],
])('the time to live is %s', (_, changes, ttl) => {
  expect(messageOf(changes).android?.ttl).toBe(ttl);
});

test('4,096 bytes are the most, keys included', () => {
  const around = Buffer.byteLength(`{"t":""}payload_pushyId${PUSH_ID}`);
  const text = 'a'.repeat(4_096 - around);
  expect(encodeFcm(aPush({ data: `{"t":"${text}"}` })).tooLarge).toBe(false);
  expect(encodeFcm(aPush({ data: `{"t":"${text}a"}` })).tooLarge).toBe(true);
  expect(encodeFcm(aPush({ data: `{"t":"${text.slice(1)}é"}` })).tooLarge).toBe(true);
});
