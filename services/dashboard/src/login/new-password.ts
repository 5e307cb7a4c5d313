import { toNameKey } from '@carillon/store/operators';
import { z } from 'zod';
import { ConsoleError } from '../http/route.ts';
import { COMMON_PASSWORDS, COMMON_WORDS } from './common-passwords.ts';

/** Minimum length of a password. */
const MIN_PASSWORD = 12;
/** Characters of the longest password. */
export const MAX_PASSWORD = 256;
/** Minimum number of different characters of a password. */
const MIN_DIFFERENT = 5;
/** Minimum letters of a part of a name that counts as a word of its own. */
const MIN_NAME_PART = 3;

/** A password that is set. {@link requireUncommon} checks it together with its operator's name. */
export const newPassword = z
  .string()
  .min(MIN_PASSWORD, `A password has at least ${MIN_PASSWORD} characters.`)
  .max(MAX_PASSWORD, `A password has at most ${MAX_PASSWORD} characters.`);

/**
 * Refuses a password that guesses begin with: a common one, one of few characters, a repeated text, and the operator's
 * name or common words with nothing but digits and signs added. Capital letters make no difference.
 *
 * @param name name of the operator, which may be an e-mail address
 * @throws ConsoleError INVALID_PARAM
 */
export function requireUncommon(password: string, name: string): void {
  const text = password.normalize('NFKC').toLowerCase();
  const isCommon =
    COMMON_PASSWORDS.has(text) ||
    new Set(text).size < MIN_DIFFERENT ||
    repeatsShortText(text) ||
    hasOnlyWords(text, [...COMMON_WORDS, ...toNameWords(name)]);
  if (!isCommon) return;
  throw new ConsoleError(
    'INVALID_PARAM',
    'This password is easy to guess: it is a common one, repeats itself, or consists of common words or your name with digits and signs. Choose another one.',
  );
}

/** Returns true for a repetition of a text that is too short for a password, such as `dragondragon`. */
function repeatsShortText(text: string): boolean {
  for (let length = 1; length < MIN_PASSWORD && 2 * length <= text.length; length += 1) {
    // The last repetition may be incomplete.
    const repeated = text.slice(0, length).repeat(Math.ceil(text.length / length));
    if (repeated.startsWith(text)) return true;
  }
  return false;
}

/** Returns true when a text has one of the words, and no letter besides them. */
function hasOnlyWords(text: string, words: readonly string[]): boolean {
  // Long words first: a short one can be a part of them.
  const longestFirst = words.toSorted((a, b) => b.length - a.length);
  const rest = longestFirst.reduce((left, word) => left.replaceAll(word, ' '), text);
  return rest !== text && !/\p{L}/u.test(rest);
}

/** Returns a name without its digits and signs, and its parts: `ann.lee@example.com` has four. */
function toNameWords(name: string): string[] {
  const parts = toNameKey(name).split(/[^\p{L}]+/u);
  const words = [parts.join(''), ...parts.filter((part) => part.length >= MIN_NAME_PART)];
  return words.filter((word) => word !== '');
}
