import { expect, test } from '@jest/globals';
import {
  createErrorTexts,
  MAX_ERROR_TEXTS,
  OTHER_ERROR,
  sanitizeProviderError,
} from '../src/deliver/error-texts.ts';

const TEXTS = Array.from({ length: MAX_ERROR_TEXTS + 2 }, (_, n) => `error ${n}`);

test('a 17th text is stored as "other", and earlier ones stay unchanged', () => {
  const limit = createErrorTexts({});
  expect(TEXTS.map(limit)).toEqual([...TEXTS.slice(0, 16), OTHER_ERROR, OTHER_ERROR]);
  expect(limit('error 3')).toBe('error 3');
});

test('a worker that takes over a batch continues with the stored texts', () => {
  const limit = createErrorTexts({
    words: [
      ['error 0', [0]],
      [OTHER_ERROR, [1]],
    ],
    later: TEXTS.slice(1, 16).map((text, n) => [n + 2, 0, 1, text]),
  });
  expect(limit('error 15')).toBe('error 15');
  expect(limit('error 16')).toBe(OTHER_ERROR);
});

test('a text is 200 printable characters at most', () => {
  const words = `503 ${'because '.repeat(100)}`;
  expect(sanitizeProviderError(words)).toBe(words.slice(0, 200).trim());
  expect(sanitizeProviderError('503 \u001b[31mBusy\u2028now\n')).toBe('503  [31mBusy now');
});
