import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { createAcceptThrottle } from '../src/accept-throttle.ts';
import {
  type AddressLimits,
  createAddressLimits,
  NO_ADDRESS_LIMITS,
} from '../src/address-limits.ts';

const ADDRESS = '203.0.113.7';
const OTHER = '198.51.100.1';
const FREE_FAILURES = 10;
const STEP_MS = 100;
const MAX_DELAY_MS = 5_000;
/** The count falls by one in 5 s, so the delay by 100 ms. */
const DECREASE_PER_MS = STEP_MS / 5_000;
const LOOKUPS = 400;

let limits: AddressLimits;
beforeEach(() => {
  limits = createAddressLimits();
});
afterEach(() => limits.stop());

describe('wrong credentials of an address', () => {
  test('are rejected at once ten times, and then each 0.1 s later than the last, up to 5 s', () => {
    const startedAt = performance.now();
    const delays = Array.from({ length: 100 }, () => limits.recordAuthFailure(ADDRESS));
    const decreaseMs = (performance.now() - startedAt) * DECREASE_PER_MS;
    for (const [index, delayMs] of delays.entries()) {
      const fullMs = Math.min(Math.max(0, index + 1 - FREE_FAILURES) * STEP_MS, MAX_DELAY_MS);
      expect(delayMs).toBeLessThanOrEqual(fullMs);
      expect(delayMs).toBeGreaterThanOrEqual(fullMs - decreaseMs);
    }
    expect(limits.recordAuthFailure(OTHER)).toBe(0);
  });

  test('are forgotten, one in 5 s', async () => {
    for (let n = 0; n < 30; n += 1) limits.recordAuthFailure(ADDRESS);
    const before = performance.now();
    const delayMs = limits.recordAuthFailure(ADDRESS);
    const after = performance.now();
    await sleep(300);
    const atLeastMs = performance.now() - after;
    const nextMs = limits.recordAuthFailure(ADDRESS);
    const atMostMs = performance.now() - before;
    expect(nextMs).toBeLessThanOrEqual(delayMs + STEP_MS - atLeastMs * DECREASE_PER_MS);
    expect(nextMs).toBeGreaterThanOrEqual(delayMs + STEP_MS - atMostMs * DECREASE_PER_MS);
  });
});

test('an address has 400 lookups, of which successful ones do not count, and more as time passes', async () => {
  // In one go: a further lookup is allowed after some milliseconds.
  const acquired = Array.from({ length: LOOKUPS + 1 }, () => limits.tryAcquireLookup(ADDRESS));
  expect(acquired).toEqual([...Array(LOOKUPS).fill(true), false]);
  expect(limits.tryAcquireLookup(OTHER)).toBe(true);
  limits.refundLookup(ADDRESS);
  expect(limits.tryAcquireLookup(ADDRESS)).toBe(true);
  await until(() => limits.tryAcquireLookup(ADDRESS), { what: 'a further lookup' });
});

test('without limits by address no credentials wait, and no lookup, connect or connection is refused', () => {
  for (let n = 0; n < 10_000; n += 1) {
    expect(NO_ADDRESS_LIMITS.recordAuthFailure(ADDRESS)).toBe(0);
    expect(NO_ADDRESS_LIMITS.tryAcquireLookup(ADDRESS)).toBe(true);
    expect(NO_ADDRESS_LIMITS.exceedsConnectionRate(ADDRESS)).toBe(false);
    expect(NO_ADDRESS_LIMITS.allowConnect('token', true)).toBe(true);
  }
});

describe('connections above the rate of their address', () => {
  const MAX_WAITING = 1_000;

  test('start when no other connection waits', async () => {
    const started: string[] = [];
    const throttle = createAcceptThrottle(
      ({ address }) => started.push(address) > 0,
      () => undefined,
    );
    for (let n = 0; n < 20; n += 1)
      throttle.enqueue({ socket: new Socket(), address: ADDRESS }, true);
    for (let n = 0; n < 20; n += 1)
      throttle.enqueue({ socket: new Socket(), address: OTHER }, false);
    await until(() => started.length === 40);
    expect(started).toEqual([...Array(20).fill(OTHER), ...Array(20).fill(ADDRESS)]);
    throttle.stop();
  });

  test('are at most 1,000: a further one closes the one that waits longest', () => {
    let evicted = 0;
    const throttle = createAcceptThrottle(
      () => false,
      () => {
        evicted += 1;
      },
    );
    const sockets = Array.from({ length: MAX_WAITING + 1 }, () => new Socket());
    for (const socket of sockets) throttle.enqueue({ socket, address: ADDRESS }, true);
    expect(throttle.countQueued()).toBe(MAX_WAITING);
    expect(evicted).toBe(1);
    expect(sockets.filter(({ destroyed }) => destroyed)).toEqual([sockets[0]]);
    throttle.stop();
  });
});
