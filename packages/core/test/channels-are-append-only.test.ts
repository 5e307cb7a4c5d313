import { expect, test } from '@jest/globals';
import {
  BATCH_NUMBERS_PER_PAGE,
  CHANNEL_REGISTRY,
  channelFor,
  findChannel,
  PLATFORMS,
  providerSecret,
} from '../src/channels.ts';

/** Numbers of channels are stored in batch ids: this list only grows. */
const NUMBERS = [
  ['mqtt', 0],
  ['apns', 1],
  ['fcm', 2],
  ['web-push', 3],
];

test('channels keep the numbers that they were released with', () => {
  const registered = CHANNEL_REGISTRY.map(({ name, number }) => [name, number]);
  expect(registered.slice(0, NUMBERS.length)).toEqual(NUMBERS);
});

test('the numbers are unique and fit into the stride of a fan-out', () => {
  const numbers = CHANNEL_REGISTRY.map(({ number }) => number);
  expect(new Set(numbers).size).toBe(numbers.length);
  expect(BATCH_NUMBERS_PER_PAGE).toBe(16);
  expect(Math.max(...numbers)).toBeLessThan(BATCH_NUMBERS_PER_PAGE);
});

test('each platform belongs to one channel, and one of a newer release to none', () => {
  expect(new Set(PLATFORMS).size).toBe(PLATFORMS.length);
  expect(PLATFORMS.map(channelFor)).toEqual(['mqtt', 'mqtt', 'mqtt', 'apns', 'web-push']);
  expect(findChannel('watch')).toBeUndefined();
  expect(() => channelFor('watch' as never)).toThrow('newer release');
});

test('a secret is read by its kind', () => {
  const secret = { kind: 'web-push', publicKey: 'a', privateKey: 'b', contact: 'mailto:a@b.c' };
  expect(providerSecret.parse(secret)).toEqual(secret);
  expect(providerSecret.safeParse({ ...secret, kind: 'pigeon' }).success).toBe(false);
  expect(providerSecret.safeParse({ ...secret, kind: 'fcm' }).success).toBe(false);
});
