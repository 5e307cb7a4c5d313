import { expect, test } from '@jest/globals';
import { AcknowledgedPushes } from '../src/acknowledged-pushes.ts';

/** A little more, because of the precision of sums. */
const MINUTE_MS = 60_001;

function acknowledge(count: number): { pushes: AcknowledgedPushes; ids: string[] } {
  const pushes = new AcknowledgedPushes();
  const ids = Array.from({ length: count }, (_, n) => `push ${n}`);
  for (const id of ids) pushes.add(id);
  return { pushes, ids };
}

const countRemembered = (pushes: AcknowledgedPushes, ids: readonly string[]) =>
  ids.filter((id) => pushes.has(id)).length;

test('of the last minute there are 256, the newest', () => {
  const { pushes, ids } = acknowledge(1_000);
  pushes.trim(performance.now());
  expect(countRemembered(pushes, ids.slice(-256))).toBe(256);
  expect(countRemembered(pushes, ids)).toBe(256);
});

test('after minutes without one there are still 32, the newest', () => {
  const { pushes, ids } = acknowledge(100);
  const now = performance.now();
  for (let minutes = 1; minutes < 10; minutes += 1) pushes.trim(now + minutes * MINUTE_MS);
  expect(countRemembered(pushes, ids.slice(-32))).toBe(32);
  expect(countRemembered(pushes, ids)).toBe(32);
});

test('one that was acknowledged after the last trim stays for the next minute', () => {
  const { pushes, ids } = acknowledge(100);
  const now = performance.now();
  pushes.trim(now + MINUTE_MS);
  const later = Array.from({ length: 60 }, (_, n) => `later ${n}`);
  for (const id of later) pushes.add(id);
  pushes.trim(now + 1.5 * MINUTE_MS);
  expect(countRemembered(pushes, [...ids, ...later])).toBe(160);
  pushes.trim(now + 2 * MINUTE_MS);
  expect(countRemembered(pushes, later)).toBe(60);
  expect(countRemembered(pushes, ids)).toBe(0);
});
