import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { deviceAuth, isDeviceAuth, parseDeviceAuthKeys } from '../src/device-auth.ts';
import { batchId, isBatchId, isPushId, newPushId, pushOfWork } from '../src/ids.ts';
import { countOutcomes, describeOutcome, FAILURES, failed, OUTCOMES } from '../src/outcomes.ts';
import { bitWords, hasBit, joinTokens, splitTokens } from '../src/work.ts';

describe('ids', () => {
  test('of pushes sort by time and are 24 hex characters', () => {
    const times = fc.uniqueArray(fc.integer({ min: 1e12, max: 4e12 }), { minLength: 2 });
    fc.assert(
      fc.property(times, (some) => {
        const sorted = some.sort((a, b) => a - b).map(newPushId);
        expect([...sorted].sort()).toEqual(sorted);
        expect(sorted.every(isPushId)).toBe(true);
      }),
    );
  });

  test('of batches name their push, and are told from pushes', () => {
    const push = newPushId(1_790_000_000_000.5);
    expect(pushOfWork(batchId(push, 7))).toBe(push);
    expect([isBatchId(batchId(push, 7)), isBatchId(push)]).toEqual([true, false]);
  });
});

test('bits say exactly the positions that were set', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer({ min: 0, max: 1_023 })), (positions) => {
      const words = Object.fromEntries(bitWords(positions));
      const found = [...Array(1_024).keys()].filter((position) => hasBit(words, position));
      expect(found).toEqual(positions.sort((a, b) => a - b));
    }),
  );
});

test('tokens come apart as they were joined', () => {
  expect(splitTokens(joinTokens(['a', 'b']))).toEqual(['a', 'b']);
  expect(splitTokens(joinTokens([]))).toEqual([]);
});

test('outcomes are told in words and counted by them', () => {
  expect(FAILURES.map((reason) => describeOutcome(failed(reason)))).toEqual(
    FAILURES.map((reason) => ({ outcome: 'failed', reason })),
  );
  const codes = Uint8Array.of(OUTCOMES.delivered, OUTCOMES.delivered, failed('inbox-full'));
  expect(countOutcomes(codes)).toEqual({ delivered: 2, failed: 1 });
});

describe('device credentials', () => {
  const old = parseDeviceAuthKeys(`1:${'a'.repeat(64)}`);
  const both = parseDeviceAuthKeys(`2:${'b'.repeat(64)},1:${'a'.repeat(64)}`);

  test('hold for their token only, and outlive a new key', () => {
    const auth = deviceAuth(old, 'token');
    expect(auth).toMatch(/^[0-9a-f]{64}$/);
    expect(isDeviceAuth(both, 'token', auth)).toBe(true);
    expect(isDeviceAuth(both, 'other', auth)).toBe(false);
    expect(isDeviceAuth(old, 'token', deviceAuth(both, 'token'))).toBe(false);
    expect(isDeviceAuth(old, 'token', 'é'.repeat(64))).toBe(false);
  });

  test.each(['', '1', '1:ab', 'x:aa', `300:${'a'.repeat(64)}`])(
    'keys like %p are refused',
    (text) => {
      expect(() => parseDeviceAuthKeys(text)).toThrow();
    },
  );
});
