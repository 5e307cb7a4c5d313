import { parseCsvRecord } from '@carillon/core/csv';
import { type FileRecord, type RecordFormat, readRecords } from '../records/read-records.ts';
import { type LineFields, RefusedLine } from './field-parsers.ts';
import { LIST_SOURCES, OWN_SOURCES, type Source } from './sources.ts';

/** Position at which the reading of a file begins. */
export interface FilePosition {
  /** Offset of the first byte. */
  end: number;
  /** Lines before it. */
  lines: number;
  /** Head of a CSV file, once it was read. */
  columns?: string[] | undefined;
}

/** A line with its fields, or with the reason why it has none. */
export interface FileLine {
  fields: LineFields | RefusedLine;
  position: FilePosition;
  line: number;
}

/** Reads the lines of a file; the head, and the last line of an export, are left out. */
export async function* readLines(
  path: string,
  { source, format }: { source: Source; format: RecordFormat },
  start: FilePosition,
): AsyncGenerator<FileLine> {
  const isOwn = OWN_SOURCES.includes(source);
  let columns = start.columns;
  for await (const record of readRecords(path, format, { start: start.end })) {
    const line = start.lines + record.line;
    const position = { end: record.end, lines: start.lines + countLines(record) };
    if (format === 'ndjson') {
      const fields = readJson(record.text);
      if (!isOwn || !isTrailer(fields)) yield { fields, line, position };
      continue;
    }
    if (isOwn && record.text.startsWith('# ')) continue;
    const values = parseCsvRecord(record.text, isOwn);
    if (columns === undefined) {
      const names = values.map((name) => name.trim().toLowerCase());
      const isHead = !isList(names, source);
      columns = isHead ? names : ['token'];
      if (isHead) continue;
    }
    yield { fields: readCsv(values, columns), line, position: { ...position, columns } };
  }
}

/** Returns the number of the line in which a record ends. */
function countLines({ text, line }: FileRecord): number {
  return line + (text.match(/\n/g)?.length ?? 0);
}

/** Checks that a file begins with a token instead of a head: it is a list of tokens. */
function isList(names: readonly string[], source: Source): boolean {
  return names.length === 1 && LIST_SOURCES.includes(source) && names[0] !== 'token';
}

function readCsv(values: readonly string[], columns: readonly string[]): LineFields | RefusedLine {
  if (values.length !== columns.length)
    return new RefusedLine(`${values.length} fields, the head has ${columns.length}`);
  return (name) => {
    const value = values[columns.indexOf(name)]?.trim();
    return value === undefined || value === '' ? undefined : value;
  };
}

function readJson(text: string): LineFields | RefusedLine {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'string') return (name) => (name === 'token' ? value : undefined);
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      return new RefusedLine('no JSON object');
    return (path) => readField(value, path);
  } catch {
    return new RefusedLine('no JSON');
  }
}

/** Reads a field by its path, such as `device.platform`. A list is read as its JSON text. */
function readField(object: object, path: string): string | undefined {
  let value: unknown = object;
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name))
      return undefined;
    value = Reflect.get(value, name);
  }
  if (value === null || value === '') return undefined;
  if (typeof value !== 'object') return String(value);
  return Array.isArray(value) ? JSON.stringify(value) : undefined;
}

function isTrailer(fields: LineFields | RefusedLine): boolean {
  return typeof fields === 'function' && fields('complete') !== undefined;
}
