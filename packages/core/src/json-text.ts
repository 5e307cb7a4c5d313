import { ApiError } from './api-error.ts';

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const OPEN_LIST = 91;
const BACKSLASH = 92;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/** A request's JSON object: its value, and its text for fields that must be stored unchanged. */
export interface JsonBody {
  value: Record<string, unknown>;
  text: string;
}

function invalidBody(problem: string): ApiError {
  return new ApiError('INVALID_PARAM', `The request body ${problem}.`);
}

/** Returns the index after the string that starts at `start`. */
function findStringEnd(text: string, start: number): number {
  let end = start;
  for (;;) {
    end = text.indexOf('"', end + 1);
    if (end < 0) return text.length;
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return end + 1;
  }
}

/**
 * Parses a request's JSON object. Nesting is limited on the raw text first: JSON.parse accepts 200,000 levels, and
 * code that walks such a value overflows the stack.
 *
 * @param createError creates the error for an invalid text
 * @throws ApiError INVALID_PARAM
 */
export function parseJsonObject(
  text: string,
  maxDepth: number,
  createError = invalidBody,
): Record<string, unknown> {
  let depth = 0;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) i = findStringEnd(text, i) - 1;
    else if (code === OPEN_OBJECT || code === OPEN_LIST) depth += 1;
    else if (code === CLOSE_OBJECT || code === CLOSE_LIST) depth -= 1;
    if (depth > maxDepth) throw createError('is nested too deep');
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw createError('is not valid JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw createError('must be a JSON object');
  }
  return value as Record<string, unknown>;
}

/** Returns the value of the string from `start` to `end`. Hardly any key has an escape, so hardly any is parsed. */
function readString(text: string, start: number, end: number): string {
  const inner = text.slice(start + 1, end - 1);
  return inner.includes('\\') ? (JSON.parse(text.slice(start, end)) as string) : inner;
}

/**
 * Returns the text of one field of a JSON object, compacted but with unchanged numbers and order of keys. Of a field
 * given twice the last one counts, as in JSON.parse.
 *
 * @param text must have been parsed successfully before
 */
export function readFieldText(text: string, field: string): string | undefined {
  let found: [number, number] | undefined;
  let depth = 0;
  let key: string | undefined;
  let expectsKey = true;
  let valueStart = 0;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      const end = findStringEnd(text, i);
      if (depth === 1 && expectsKey) key = readString(text, i, end);
      i = end - 1;
      continue;
    }
    if (depth === 1 && code === COLON) {
      expectsKey = false;
      valueStart = i + 1;
    }
    if (depth === 1 && (code === COMMA || code === CLOSE_OBJECT)) {
      if (key === field) found = [valueStart, i];
      expectsKey = true;
      key = undefined;
    }
    if (code === OPEN_OBJECT || code === OPEN_LIST) depth += 1;
    else if (code === CLOSE_OBJECT || code === CLOSE_LIST) depth -= 1;
  }
  return found && compactJson(text.slice(...found));
}

/** Removes white space between tokens and unnecessary escapes within strings from a JSON text. */
export function compactJson(text: string): string {
  let result = '';
  let copyFrom = 0;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      const end = findStringEnd(text, i);
      const string = text.slice(i, end);
      const compacted = string.includes('\\') ? JSON.stringify(JSON.parse(string)) : string;
      result += text.slice(copyFrom, i) + compacted;
      copyFrom = end;
      i = end - 1;
    } else if (code === 32 || code === 10 || code === 13 || code === 9) {
      result += text.slice(copyFrom, i);
      copyFrom = i + 1;
    }
  }
  return result + text.slice(copyFrom);
}
