import { createReadStream } from 'node:fs';

/** Formats of files that hold one record after the other. */
export const RECORD_FORMATS = ['ndjson', 'csv'] as const;
export type RecordFormat = (typeof RECORD_FORMATS)[number];

/** One record of a file, without its line end. */
export interface FileRecord {
  text: string;
  /** Number of its first line, counted from the line that the reading began with. */
  line: number;
  /** Offset of the byte after its line end. */
  end: number;
}

/** Maximum size of a record. A longer one is an unclosed quote, or no file of records. */
const MAX_RECORD_BYTES = 1_048_576;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const QUOTE = 0x22;

/**
 * Reads the records of a file in constant memory. A record of CSV may contain line breaks within quotes; empty lines are
 * left out.
 *
 * @param start offset of the first byte, the beginning of a record
 * @param isPartial leaves out a last record without a line end: its rest was never written
 * @throws Error when a record has more than 1 MB
 */
export async function* readRecords(
  path: string,
  format: RecordFormat,
  { start = 0, isPartial = false }: { start?: number; isPartial?: boolean } = {},
): AsyncGenerator<FileRecord> {
  const splitter = createSplitter(format, start);
  for await (const chunk of createReadStream(path, { start }))
    yield* splitter.split(chunk as Buffer);
  if (!isPartial) yield* splitter.end();
}

function createSplitter(format: RecordFormat, start: number) {
  let rest: Buffer[] = [];
  let restBytes = 0;
  let offset = start;
  let line = 1;
  let recordLine = 1;
  let isQuoted = false;

  /** Returns the end of the record in a chunk; -1 when it continues in the next one. */
  function findEnd(chunk: Buffer, from: number): number {
    if (format === 'ndjson') return chunk.indexOf(LINE_FEED, from);
    for (let at = from; at < chunk.length; at += 1) {
      const byte = chunk[at];
      // A doubled quote switches twice.
      if (byte === QUOTE) isQuoted = !isQuoted;
      else if (byte === LINE_FEED && !isQuoted) return at;
      else if (byte === LINE_FEED) line += 1;
    }
    return -1;
  }

  function* take(bytes: Buffer, end: number): Generator<FileRecord> {
    const whole = rest.length === 0 ? bytes : Buffer.concat([...rest, bytes]);
    rest = [];
    restBytes = 0;
    const hasReturn = whole.at(-1) === CARRIAGE_RETURN;
    const text = whole.toString('utf8', 0, whole.length - (hasReturn ? 1 : 0));
    if (text !== '') yield { text: text.replace(/^\uFEFF/, ''), line: recordLine, end };
  }

  return {
    *split(chunk: Buffer): Generator<FileRecord> {
      let from = 0;
      for (;;) {
        const end = findEnd(chunk, from);
        if (end < 0) break;
        yield* take(chunk.subarray(from, end), offset + end + 1);
        line += 1;
        recordLine = line;
        from = end + 1;
      }
      rest.push(chunk.subarray(from));
      restBytes += chunk.length - from;
      offset += chunk.length;
      if (restBytes > MAX_RECORD_BYTES)
        throw new Error(
          `the record of line ${recordLine} has more than 1 MB; is a quote not closed?`,
        );
    },
    *end(): Generator<FileRecord> {
      if (restBytes > 0) yield* take(Buffer.alloc(0), offset);
    },
  };
}
