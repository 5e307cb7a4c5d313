import { ApiError } from './api-error.ts';

/** Character codes of JSON's syntax. */
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

function isWhiteSpace(code: number): boolean {
  return code === 32 || code === 10 || code === 13 || code === 9;
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

/** Checks that a text has at most `most` opening brackets, also within strings. */
function hasFewBrackets(text: string, most: number): boolean {
  let count = 0;
  for (const bracket of '{[') {
    for (let at = text.indexOf(bracket); at >= 0; at = text.indexOf(bracket, at + 1)) {
      count += 1;
      if (count > most) return false;
    }
  }
  return true;
}

/** Checks whether the values of a JSON text are nested deeper than `maxDepth`. */
function isDeeperThan(text: string, maxDepth: number): boolean {
  // Each level takes a bracket. Long lists have few of them: it takes a tenth of the time to count them.
  if (hasFewBrackets(text, maxDepth)) return false;
  let depth = 0;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) i = findStringEnd(text, i) - 1;
    else if (code === OPEN_OBJECT || code === OPEN_LIST) depth += 1;
    else if (code === CLOSE_OBJECT || code === CLOSE_LIST) depth -= 1;
    if (depth > maxDepth) return true;
  }
  return false;
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
  if (isDeeperThan(text, maxDepth)) throw createError('is nested too deep');
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

/**
 * Checks whether the string from `start` to `end` is the name of a field, which has no escape. A key with an escape is
 * longer than its value; hardly any has one, so hardly any is parsed.
 */
function isName(text: string, start: number, end: number, field: string): boolean {
  const length = end - start - 2;
  if (length <= field.length) return length === field.length && text.startsWith(field, start + 1);
  const string = text.slice(start, end);
  return string.includes('\\') && JSON.parse(string) === field;
}

/** A field of a JSON object: the positions of its name's string, and of its value up to the comma or brace after it. */
interface FieldPosition {
  nameStart: number;
  nameEnd: number;
  valueStart: number;
  valueEnd: number;
}

/** Calls `visit` for each field of a JSON object, in order. @param text must be valid */
function visitFields(text: string, visit: (field: FieldPosition) => void): void {
  let depth = 0;
  let field: FieldPosition | undefined;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      const nameEnd = findStringEnd(text, i);
      if (depth === 1 && field === undefined)
        field = { nameStart: i, nameEnd, valueStart: nameEnd, valueEnd: nameEnd };
      i = nameEnd - 1;
      continue;
    }
    if (depth === 1 && field !== undefined) {
      if (code === COLON) field.valueStart = i + 1;
      if (code === COMMA || code === CLOSE_OBJECT) {
        field.valueEnd = i;
        visit(field);
        field = undefined;
      }
    }
    if (code === OPEN_OBJECT || code === OPEN_LIST) depth += 1;
    else if (code === CLOSE_OBJECT || code === CLOSE_LIST) depth -= 1;
  }
}

/**
 * Returns the text of one field of a JSON object, compacted but with unchanged numbers and order of keys. Of a field
 * given twice the last one counts, as in JSON.parse.
 *
 * @param text must have been parsed successfully before
 */
export function readFieldText(text: string, field: string): string | undefined {
  let found: [number, number] | undefined;
  visitFields(text, ({ nameStart, nameEnd, valueStart, valueEnd }) => {
    if (isName(text, nameStart, nameEnd, field)) found = [valueStart, valueEnd];
  });
  return found && compactJson(text.slice(...found));
}

/**
 * Removes the fields of these names from a JSON object, also repeated ones; the text of the others stays unchanged.
 *
 * @param text must be valid
 */
export function removeFields(text: string, names: readonly string[]): string {
  // Hardly any payload has one of the names; one without quotes would have an escape.
  if (!text.includes('\\') && !names.some((name) => text.includes(`"${name}"`))) return text;
  const kept: string[] = [];
  let removedCount = 0;
  visitFields(text, ({ nameStart, nameEnd, valueEnd }) => {
    if (names.some((name) => isName(text, nameStart, nameEnd, name))) removedCount += 1;
    else kept.push(text.slice(nameStart, valueEnd));
  });
  return removedCount === 0 ? text : `{${kept.join(',')}}`;
}

/** Fields, and strings with escapes, of a text that is made canonical: far more than a push with the longest payload has. */
const MAX_CANONICAL_FIELDS = 10_000;
/** Gaps of white space in such a text: more than a push has with all its tokens, each on a line of its own. */
const MAX_CANONICAL_GAPS = 250_000;

/** Checks that a canonical text takes little time: each field, string with an escape and gap of white space costs some. */
function isQuickToCanonicalize(text: string): boolean {
  let [fields, gaps] = [0, 0];
  let backslash = text.indexOf('\\');
  let isInGap = false;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    const wasInGap = isInGap;
    isInGap = isWhiteSpace(code);
    if (isInGap && !wasInGap) gaps += 1;
    if (code === COLON) fields += 1;
    if (code === QUOTE) {
      const end = findStringEnd(text, i);
      if (backslash >= 0 && backslash < end) {
        fields += 1;
        backslash = text.indexOf('\\', end);
      }
      i = end - 1;
    }
    if (fields > MAX_CANONICAL_FIELDS || gaps > MAX_CANONICAL_GAPS) return false;
  }
  return true;
}

/** An object of a JSON text, while its fields are read. */
interface OpenObject {
  /** The text before the object: what was rewritten of it, and the start of the rest. */
  before: string;
  beforeStart: number;
  start: number;
  names: string[];
  fields: string[];
  isInField: boolean;
  isUnordered: boolean;
}

/**
 * Returns a JSON text that does not depend on the order of keys, white space and the escapes of strings. Numbers keep
 * their text. A field given twice stays given twice, in its order, because the payload is delivered so.
 *
 * No recursion, and texts are concatenated instead of joined, so that no depth of nesting costs more than its length.
 * A text that is made to take long is returned as it is.
 *
 * @param text must be valid
 */
export function canonicalizeJson(text: string): string {
  if (!isQuickToCanonicalize(text)) return text;
  const compact = compactJson(text);
  /** The containers around the position; undefined for a list. */
  const around: (OpenObject | undefined)[] = [];
  let object: OpenObject | undefined;
  let rewritten = '';
  let copyFrom = 0;
  for (let i = 0; i < compact.length; i += 1) {
    const code = compact.charCodeAt(i);
    if (code === QUOTE) {
      const end = findStringEnd(compact, i);
      if (object !== undefined && !object.isInField) beginField(object, compact.slice(i, end));
      i = end - 1;
      continue;
    }
    if (object?.isInField && (code === COMMA || code === CLOSE_OBJECT)) {
      // A field of which a part was rewritten.
      if (rewritten !== '') object.isUnordered = true;
      object.fields.push(rewritten + compact.slice(copyFrom, i));
      object.isInField = false;
      rewritten = '';
      copyFrom = i + 1;
    }
    if (code === OPEN_OBJECT) {
      around.push(object);
      object = openObject(rewritten, copyFrom, i);
      rewritten = '';
      copyFrom = i + 1;
    } else if (code === CLOSE_OBJECT && object !== undefined) {
      rewritten = object.before;
      copyFrom = object.beforeStart;
      if (object.isUnordered) {
        rewritten += `${compact.slice(copyFrom, object.start)}{${sortFields(object)}}`;
        copyFrom = i + 1;
      }
      object = around.pop();
    } else if (code === OPEN_LIST) {
      around.push(object);
      object = undefined;
    } else if (code === CLOSE_LIST) {
      object = around.pop();
    }
  }
  return rewritten + compact.slice(copyFrom);
}

function openObject(before: string, beforeStart: number, start: number): OpenObject {
  const state = { isInField: false, isUnordered: false };
  return { before, beforeStart, start, names: [], fields: [], ...state };
}

function beginField(object: OpenObject, name: string): void {
  const previous = object.names.at(-1);
  if (previous !== undefined && previous > name) object.isUnordered = true;
  object.names.push(name);
  object.isInField = true;
}

/** Concatenates the fields of an object in the order of their names; those of one name stay in their order. */
function sortFields({ names, fields }: OpenObject): string {
  const fieldsByName = new Map<string, string>();
  for (const [at, name] of names.entries()) {
    const earlier = fieldsByName.get(name);
    const field = fields[at] ?? '';
    fieldsByName.set(name, earlier === undefined ? field : `${earlier},${field}`);
  }
  let sorted = '';
  for (const name of [...fieldsByName.keys()].sort()) {
    sorted += `${sorted === '' ? '' : ','}${fieldsByName.get(name)}`;
  }
  return sorted;
}

/** Removes white space between tokens and unnecessary escapes within strings from a JSON text. */
export function compactJson(text: string): string {
  let backslash = text.indexOf('\\');
  let result = '';
  let copyFrom = 0;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      const end = findStringEnd(text, i);
      if (backslash >= 0 && backslash < end) {
        result += text.slice(copyFrom, i) + JSON.stringify(JSON.parse(text.slice(i, end)));
        copyFrom = end;
        backslash = text.indexOf('\\', end);
      }
      i = end - 1;
    } else if (isWhiteSpace(code)) {
      result += text.slice(copyFrom, i);
      copyFrom = i + 1;
    }
  }
  return result + text.slice(copyFrom);
}
