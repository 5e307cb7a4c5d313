import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { hasBit, joinTokens, splitTokens, toBitWords } from '../src/batch.ts';
import { createDeviceAuth, isDeviceAuth, parseDeviceAuthKeys } from '../src/device-auth.ts';
import { batchId, isBatchId, isPushId, newClaimId, newPushId, pushIdOfBatch } from '../src/ids.ts';
import {
  countOutcomes,
  describeOutcome,
  FAILURES,
  failureCode,
  OUTCOMES,
} from '../src/outcomes.ts';
import { parseSealingKeys, seal, unseal } from '../src/sealing.ts';

describe('ids', () => {
  test('ids of the same moment and of claims differ, also after their random bytes were drawn anew', () => {
    const count = 5_000;
    expect(new Set(Array.from({ length: count }, () => newPushId(0))).size).toBe(count);
    expect(new Set(Array.from({ length: count }, newClaimId)).size).toBe(count);
  });

  test('of pushes sort by time and are 24 hex characters', () => {
    const times = fc.uniqueArray(fc.integer({ min: 1e12, max: 4e12 }), { minLength: 2 });
    fc.assert(
      fc.property(times, (some) => {
        const sorted = some.sort((a, b) => a - b).map((ms) => newPushId(ms));
        expect([...sorted].sort()).toEqual(sorted);
        expect(sorted.every(isPushId)).toBe(true);
      }),
    );
  });

  test('of scheduled pushes sort by due time, then by acceptance, before those of pushes accepted at the due time', () => {
    const yearMs = 366 * 86_400_000;
    const dueMs = 1_790_000_000_000;
    const before = [dueMs - yearMs, dueMs - yearMs + 0.25, dueMs - 1.25, dueMs - 1];
    const late = [dueMs, dueMs + 0.5, dueMs + 3_000, dueMs + 86_400_000];
    const ids = [
      newPushId(dueMs - 1),
      ...[...before, ...late].map((acceptedMs) => newPushId(acceptedMs, dueMs)),
      newPushId(dueMs),
      newPushId(dueMs - yearMs, dueMs + 1_000),
    ];
    expect([...new Set(ids)].sort()).toEqual(ids);
    expect(ids.every(isPushId)).toBe(true);
  });

  test('of batches sort by their number beyond six digits', () => {
    const push = newPushId(1_790_000_000_000);
    const numbers = [0, 1, 999_999, 1_000_000, 1_000_001, 9_999_999, 10_000_000, 2 ** 31];
    const ids = numbers.map((number) => batchId(push, number));
    expect([...ids].sort()).toEqual(ids);
    expect(ids.map(pushIdOfBatch)).toEqual(ids.map(() => push));
  });

  test('of batches contain their push id and differ from push ids', () => {
    const push = newPushId(1_790_000_000_000.5);
    expect(pushIdOfBatch(batchId(push, 7))).toBe(push);
    expect([isBatchId(batchId(push, 7)), isBatchId(push)]).toEqual([true, false]);
  });
});

test('hasBit returns exactly the positions that were set', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer({ min: 0, max: 1_023 })), (positions) => {
      const words = Object.fromEntries(toBitWords(positions));
      const found = [...Array(1_024).keys()].filter((position) => hasBit(words, position));
      expect(found).toEqual(positions.sort((a, b) => a - b));
    }),
  );
});

test('splitTokens reverses joinTokens', () => {
  expect(splitTokens(joinTokens(['a', 'b']))).toEqual(['a', 'b']);
  expect(splitTokens(joinTokens([]))).toEqual([]);
});

test('outcomes are described and counted by name', () => {
  expect(FAILURES.map((reason) => describeOutcome(failureCode(reason)))).toEqual(
    FAILURES.map((reason) => ({ outcome: 'failed', reason })),
  );
  const codes = Uint8Array.of(OUTCOMES.delivered, OUTCOMES.delivered, failureCode('inbox-full'));
  expect(countOutcomes(codes)).toEqual({ delivered: 2, failed: 1 });
});

describe('device credentials', () => {
  const old = parseDeviceAuthKeys(`1:${'a'.repeat(64)}`);
  const both = parseDeviceAuthKeys(`2:${'b'.repeat(64)},1:${'a'.repeat(64)}`);

  test('are valid only for their token, and stay valid after a key rotation', () => {
    const auth = createDeviceAuth(old, 'token');
    expect(auth).toMatch(/^[0-9a-f]{64}$/);
    expect(isDeviceAuth(both, 'token', auth)).toBe(true);
    expect(isDeviceAuth(both, 'other', auth)).toBe(false);
    expect(isDeviceAuth(old, 'token', createDeviceAuth(both, 'token'))).toBe(false);
    expect(isDeviceAuth(old, 'token', 'é'.repeat(64))).toBe(false);
  });

  test('are invalid once their key is removed or replaced', () => {
    const auth = createDeviceAuth(old, 'token');
    for (const text of [`2:${'b'.repeat(64)}`, `1:${'c'.repeat(64)}`])
      expect(isDeviceAuth(parseDeviceAuthKeys(text), 'token', auth)).toBe(false);
  });

  test.each(['', '1', '1:ab', 'x:aa', `300:${'a'.repeat(64)}`])(
    'keys like %p are rejected',
    (text) => {
      expect(() => parseDeviceAuthKeys(text)).toThrow();
    },
  );
});

const OLD = `1:${'0a'.repeat(32)}`;
const NEW = `2:${'0b'.repeat(32)}`;
const TEXT = '{"kind":"fcm","privateKey":"…"}';

test('a sealed text is unsealed with its associated data, also after a key rotation', () => {
  const sealed = seal(parseSealingKeys(OLD), 'app:fcm', TEXT);
  const both = parseSealingKeys(`${NEW},${OLD}`);
  expect(unseal(both, 'app:fcm', sealed)).toBe(TEXT);
  expect(seal(both, 'app:fcm', TEXT).key).toBe(2);
});

test('a sealed text does not contain the text, and sealing twice gives different results', () => {
  const keys = parseSealingKeys(OLD);
  const [one, two] = [seal(keys, 'app:fcm', TEXT), seal(keys, 'app:fcm', TEXT)];
  expect(JSON.stringify(one)).not.toContain('privateKey');
  expect(one.text).not.toBe(two.text);
});

test('unsealing fails with other associated data, changed data or an unknown key', () => {
  const keys = parseSealingKeys(OLD);
  const sealed = seal(keys, 'app:fcm', TEXT);
  const changed = { ...sealed, text: Buffer.from('other').toString('base64') };
  expect(() => unseal(keys, 'other:fcm', sealed)).toThrow();
  expect(() => unseal(keys, 'app:fcm', changed)).toThrow();
  expect(() => unseal(parseSealingKeys(NEW), 'app:fcm', sealed)).toThrow('no sealing key 1');
});

test.each(['', '1:ab', 'x:'.padEnd(66, '0')])('keys written as "%s" are rejected', (text) => {
  expect(() => parseSealingKeys(text)).toThrow('sealing keys are written as');
});

test('two keys with the same id are rejected: texts sealed by the second could not be unsealed', () => {
  expect(() => parseSealingKeys(`${OLD},1:${'0c'.repeat(32)}`)).toThrow('unique id');
});
