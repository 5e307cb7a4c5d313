import { z } from 'zod';
import { ApiError } from './api-error.ts';

/** Array of strings. Its items may be any text; the lookup finds unknown tokens and topics. */
export const stringArray = z
  .custom<string[]>(
    // A plain loop: validating 100,000 items by a schema each takes 20 times as long.
    (value) => Array.isArray(value) && value.every((item) => typeof item === 'string'),
    'must be an array of strings',
  )
  .meta({ override: { type: 'array', items: { type: 'string' } } });

/** Integer schema whose error names the bounds. */
export function integer(min: number, max: number): z.ZodInt {
  const error =
    max === Number.MAX_SAFE_INTEGER
      ? `must be an integer from ${min}`
      : `must be an integer from ${min} to ${max}`;
  return z.int({ error }).min(min, { error }).max(max, { error });
}

/**
 * Validates a request's fields and returns them; unknown fields are ignored. A null field counts as absent, also in
 * nested objects: serializers of Java and C# write unset fields as null.
 *
 * @throws ApiError INVALID_PARAM, which names the first invalid field
 */
export function validate<S extends z.ZodType>(schema: S, value: unknown): z.infer<S> {
  const fields = omitNulls(value);
  const parsed = schema.safeParse(fields, { error: describeIssue });
  if (parsed.success) return parsed.data;
  const { path, message } = findFirstIssue(parsed.error.issues);
  const isMissing = path.length > 0 && getValueAt(fields, path) === undefined;
  throw invalidParameter(formatPath(path), isMissing ? `is missing; it ${message}` : message);
}

/** Creates the error for one parameter. @param problem continues the sentence: `must be an integer` */
export function invalidParameter(name: string, problem: string): ApiError {
  return new ApiError('INVALID_PARAM', `The parameter "${name}" ${problem}.`, undefined, name);
}

/** Returns a value without the null fields of its objects: a copy, unless there are none. */
function omitNulls(value: unknown): unknown {
  return isRecord(value) && hasNull(value) ? copyWithoutNulls(value) : value;
}

/** Checks an object and those in it for null fields. A loop, because calls for 2,000 levels overflow the stack. */
function hasNull(value: Record<string, unknown>): boolean {
  const records = [value];
  for (const record of records) {
    for (const name in record) {
      const fieldValue = record[name];
      if (fieldValue === null) return true;
      if (isRecord(fieldValue)) records.push(fieldValue);
    }
  }
  return false;
}

function copyWithoutNulls(value: Record<string, unknown>): Record<string, unknown> {
  const copy = omitNullFields(value);
  const copies = [copy];
  for (const current of copies) {
    for (const [name, fieldValue] of Object.entries(current)) {
      if (!isRecord(fieldValue)) continue;
      const fieldCopy = omitNullFields(fieldValue);
      current[name] = fieldCopy;
      copies.push(fieldCopy);
    }
  }
  return copy;
}

function omitNullFields(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([, fieldValue]) => fieldValue !== null));
}

/** Checks for an object. Array items stay: removing a null would shift the others. */
function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

type Path = readonly PropertyKey[];

function getValueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((current, key) => Object(current)[key], value);
}

/** Formats a path as `notification.loc_args[0]`. */
function formatPath(path: Path): string {
  return path
    .map((key, index) => {
      if (typeof key === 'number') return `[${key}]`;
      return index === 0 ? String(key) : `.${String(key)}`;
    })
    .join('');
}

/** Returns the first issue; for a union, the one within the alternative that the client meant. */
function findFirstIssue([issue]: readonly z.core.$ZodIssue[]): { path: Path; message: string } {
  if (issue === undefined) return { path: [], message: 'must have another form' };
  const alternatives = issue.code === 'invalid_union' ? issue.errors : [];
  const intended = alternatives.find(([first]) => (first?.path.length ?? 0) > 0);
  if (intended === undefined) return issue;
  const { path, message } = findFirstIssue(intended);
  return { path: [...issue.path, ...path], message };
}

const TYPE_NAMES: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
  record: 'an object',
};

/**
 * Describes the valid values of a field, if its schema has no message, in terms that need no knowledge of the
 * validator.
 */
function describeIssue(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${TYPE_NAMES[issue.expected] ?? 'of another type'}`;
    case 'invalid_value':
      return `must be ${formatList(issue.values.map(String))}`;
    case 'too_small':
      return `must have at least ${issue.minimum} ${lengthUnitFor(issue.origin, issue.minimum)}`;
    case 'too_big':
      return `must have at most ${issue.maximum} ${lengthUnitFor(issue.origin, issue.maximum)}`;
    case 'invalid_union':
      return describeAlternatives(issue.errors);
    default:
      return 'must have another form';
  }
}

function lengthUnitFor(origin: string, length: number | bigint): string {
  const [singular, plural] =
    origin === 'string' ? ['character', 'characters'] : ['entry', 'entries'];
  return Number(length) === 1 ? singular : plural;
}

function describeAlternatives(errors: readonly (readonly z.core.$ZodIssue[])[]): string {
  const messages = [...new Set(errors.flatMap(([first]) => first?.message ?? []))];
  const isEveryMustBe = messages.every((message) => message.startsWith('must be '));
  const prefix = isEveryMustBe ? 'must be ' : 'must ';
  return prefix + formatList(messages.map((message) => message.slice(prefix.length)));
}

/** Formats a list as `a, b or c`. */
function formatList(items: readonly string[]): string {
  if (items.length < 2) return items.join('');
  return `${items.slice(0, -1).join(', ')} or ${items.at(-1)}`;
}
