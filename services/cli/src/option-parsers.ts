import { readFileSync } from 'node:fs';
import { describeError } from '@carillon/admin/admin-error';
import { InvalidArgumentError } from 'commander';
import { z } from 'zod';

const UNITS: Record<string, number> = { '': 1, s: 1, m: 60, h: 3_600, d: 86_400 };
const TIME_ZONED = z.iso.datetime({ offset: true });

/** Creates a parser for whole numbers from `min` to `max`. */
export function createIntegerParser(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

/** Creates a parser for durations up to `max` seconds, such as `90`, `90s`, `15m`, `1h` or `30d`; it returns seconds. */
export function createSecondsParser(max: number): (text: string) => number {
  return (text) => {
    const { number, unit } = /^(?<number>\d+)(?<unit>[smhd]?)$/.exec(text)?.groups ?? {};
    const value = Number(number) * (UNITS[unit ?? ''] ?? 1);
    if (value <= max) return value;
    throw new InvalidArgumentError(
      `It must be seconds, or a number with s, m, h or d, such as 15m; ${max} seconds at most.`,
    );
  };
}

/** Parses a unix timestamp in seconds or an ISO 8601 date with a time zone; returns unix seconds, rounded up. */
export function parseTimestamp(text: string): number {
  if (/^\d{1,11}$/.test(text)) return Number(text);
  if (TIME_ZONED.safeParse(text).success) return Math.ceil(Date.parse(text) / 1_000);
  throw new InvalidArgumentError(
    'It must be a unix timestamp in seconds, or a date with a time zone, such as 2030-01-31T18:00:00Z or 2030-01-31T18:00:00+01:00.',
  );
}

/** Parses a time of the past: as {@link parseTimestamp}, or how long ago it is, such as `90s`, `15m`, `1h` or `30d`. */
export function parsePastTime(text: string): Date {
  const { number, unit = '' } = /^(?<number>\d{1,9})(?<unit>[smhd])$/.exec(text)?.groups ?? {};
  if (number !== undefined) {
    const at = Date.now() - Number(number) * 1_000 * (UNITS[unit] ?? 1);
    return new Date(Math.max(0, at));
  }
  try {
    return new Date(parseTimestamp(text) * 1_000);
  } catch {
    throw new InvalidArgumentError(
      'It must be a time ago, such as 15m, 1h or 30d, a date with a time zone, such as 2030-01-31T18:00:00Z, or a unix timestamp in seconds.',
    );
  }
}

/** Collects the values of an option that can be repeated and takes several values separated by commas. */
export function collectValues(text: string, previous: readonly string[] = []): string[] {
  const values = text.split(',').filter((value) => value !== '');
  if (values.length === 0) throw new InvalidArgumentError('It must not be empty.');
  return [...previous, ...values];
}

/** Creates a collector for names: each is normalized, duplicates are dropped. `normalize` throws for an invalid name. */
export function createNameCollector(
  normalize: (name: string) => string,
): (text: string, previous?: readonly string[] | false) => string[] {
  return (text, previous) => {
    try {
      const names = collectValues(text).map((name) => normalize(name.trim()));
      return [...new Set([...(previous || []), ...names])];
    } catch (error) {
      throw new InvalidArgumentError(`${describeError(error)}.`);
    }
  };
}

/**
 * Validates that a text is a JSON object and returns it unchanged: parsing would change large numbers. `@PATH` stands for
 * the text of a file.
 */
export function parseJsonObjectText(text: string): string {
  const json = text.startsWith('@') ? readTextFile(text.slice(1)) : text;
  if (isJsonObject(json)) return json;
  throw new InvalidArgumentError(
    'It must be a JSON object, such as \'{"message":"Hello"}\', or @FILE with one in the file.',
  );
}

function readTextFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new InvalidArgumentError(`The file ${path} can't be read: ${describeError(error)}.`);
  }
}

function isJsonObject(text: string): boolean {
  try {
    JSON.parse(text);
  } catch (error) {
    throw new InvalidArgumentError(`It is not JSON: ${describeError(error)}.`);
  }
  return text.trimStart().startsWith('{');
}
