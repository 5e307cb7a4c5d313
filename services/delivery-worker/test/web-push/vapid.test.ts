import { expect, test } from '@jest/globals';
import { createVapid } from '../../src/channels/web-push/vapid.ts';
import { createSecret } from './pushes.ts';

const ORIGIN = 'https://push.example';
const HOUR_MS = 3_600_000;

function createVapidWithClock() {
  const clock = { ms: 0 };
  return { clock, vapid: createVapid(createSecret(), () => clock.ms) };
}

test('a signature is renewed long before it expires', () => {
  const { clock, vapid } = createVapidWithClock();
  const first = vapid.authorize(ORIGIN);
  clock.ms = 5.9 * HOUR_MS;
  expect(vapid.authorize(ORIGIN)).toBe(first);
  clock.ms = 6.1 * HOUR_MS;
  expect(vapid.authorize(ORIGIN)).not.toBe(first);
});

test('a refused signature is renewed once, unless it is fresh', () => {
  const { clock, vapid } = createVapidWithClock();
  const first = vapid.authorize(ORIGIN);
  expect(vapid.renew(ORIGIN, first)).toBe(false);
  clock.ms = 0.1 * HOUR_MS;
  expect(vapid.renew(ORIGIN, first)).toBe(true);
  const second = vapid.authorize(ORIGIN);
  expect(second).not.toBe(first);
  // Another request with the first one was on its way.
  expect(vapid.renew(ORIGIN, first)).toBe(true);
  expect(vapid.authorize(ORIGIN)).toBe(second);
});

test('each origin has a signature of its own', () => {
  const { vapid } = createVapidWithClock();
  expect(vapid.authorize(ORIGIN)).not.toBe(vapid.authorize('https://other.example'));
});
