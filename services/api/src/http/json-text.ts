import { ApiError } from '@carillon/core/api-error';

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const OPEN_LIST = 91;
const BACKSLASH = 92;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/** The place behind the string that starts at `start`. */
function endOfString(text: string, start: number): number {
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
 * Parses a request's JSON object. Nesting is bounded on the raw text first: the parser itself takes 200,000
 * levels, after which everything that walks the value overflows its stack.
 */
export function parseJsonObject(text: string, maxDepth: number): Record<string, unknown> {
  let depth = 0;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) i = endOfString(text, i) - 1;
    else if (code === OPEN_OBJECT || code === OPEN_LIST) depth += 1;
    else if (code === CLOSE_OBJECT || code === CLOSE_LIST) depth -= 1;
    if (depth > maxDepth) throw new ApiError('INVALID_PARAM', 'The JSON is nested too deep.');
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ApiError('INVALID_PARAM', 'The request body is not valid JSON.');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ApiError('INVALID_PARAM', 'The request body must be a JSON object.');
  }
  return value as Record<string, unknown>;
}

/**
 * The text of one field of a JSON object, as short as it can be written without changing a number or the order
 * of keys: no white space between tokens, no needless escapes. A field given twice counts as its last, as in
 * JSON.parse. The text must have been parsed successfully before.
 */
export function fieldText(text: string, field: string): string | undefined {
  let found: [number, number] | undefined;
  let depth = 0;
  let key: string | undefined;
  let keyNext = true;
  let valueStart = 0;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      const end = endOfString(text, i);
      if (depth === 1 && keyNext) key = JSON.parse(text.slice(i, end)) as string;
      i = end - 1;
      continue;
    }
    if (depth === 1 && code === COLON) {
      keyNext = false;
      valueStart = i + 1;
    }
    if (depth === 1 && (code === COMMA || code === CLOSE_OBJECT)) {
      if (key === field) found = [valueStart, i];
      keyNext = true;
      key = undefined;
    }
    if (code === OPEN_OBJECT || code === OPEN_LIST) depth += 1;
    else if (code === CLOSE_OBJECT || code === CLOSE_LIST) depth -= 1;
  }
  return found && compact(text.slice(...found));
}

/** A JSON text without white space between tokens and needless escapes within strings. */
export function compact(text: string): string {
  let out = '';
  let plainFrom = 0;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      const end = endOfString(text, i);
      const string = text.slice(i, end);
      const short = string.includes('\\') ? JSON.stringify(JSON.parse(string)) : string;
      out += text.slice(plainFrom, i) + short;
      plainFrom = end;
      i = end - 1;
    } else if (code === 32 || code === 10 || code === 13 || code === 9) {
      out += text.slice(plainFrom, i);
      plainFrom = i + 1;
    }
  }
  return out + text.slice(plainFrom);
}
