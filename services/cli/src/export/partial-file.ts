import { existsSync } from 'node:fs';
import { open, truncate } from 'node:fs/promises';
import { ERASED_TOKEN } from '@carillon/core/batch';
import { parseCsvRecord } from '@carillon/core/csv';
import { type RecordFormat, readRecords } from '../records/read-records.ts';
import type { ExportKind } from './stream-export.ts';

/** Content of a partial file. */
export interface ExportProgress {
  rows: number;
  /** The value of `after` that continues it; absent if it has no row. */
  after?: string;
  /** The export has reached its end. */
  isComplete: boolean;
}

/** Fields of a row that its key is made of. */
const KEY_FIELDS: Record<ExportKind, readonly string[]> = {
  devices: ['token'],
  subscriptions: ['topic', 'token'],
  pushes: ['id'],
  recipients: ['token'],
};

/** Finds the rows of a partial file, and removes a row that was not written completely. */
export async function readProgress(
  path: string,
  kind: ExportKind,
  format: RecordFormat,
): Promise<ExportProgress> {
  if (!existsSync(path)) return { rows: 0, isComplete: false };
  const reader = createRowReader(kind, format);
  let end = 0;
  // No export can be continued behind an erased recipient: it is requested again with those behind the row before.
  let erased = 0;
  let progress: ExportProgress = { rows: 0, isComplete: false };
  for await (const record of readRecords(path, format, { isPartial: true })) {
    const row = reader.read(record.text);
    // A notice of an end that was too early is replaced by the rows that follow.
    if (row === 'incomplete') break;
    if (typeof row === 'object' && row.key === ERASED_TOKEN) {
      erased += 1;
      continue;
    }
    end = record.end;
    if (row === 'head') continue;
    const rows = progress.rows + erased;
    erased = 0;
    progress =
      row === 'complete'
        ? { ...progress, rows, isComplete: true }
        : { rows: rows + 1, after: row.key, isComplete: false };
  }
  // Without a row the export begins anew, with its head.
  await truncate(path, progress.rows === 0 && !progress.isComplete ? 0 : end);
  return progress;
}

type Row = 'head' | 'complete' | 'incomplete' | { key: string };

function createRowReader(kind: ExportKind, format: RecordFormat): { read(text: string): Row } {
  const keyFields = KEY_FIELDS[kind];
  if (format === 'ndjson') {
    return {
      read(text) {
        const fields = JSON.parse(text) as Record<string, unknown>;
        if (typeof fields.complete === 'boolean')
          return fields.complete ? 'complete' : 'incomplete';
        return { key: keyFields.map((name) => String(fields[name])).join(':') };
      },
    };
  }
  let columns: string[] | undefined;
  return {
    read(text) {
      if (text === '# complete') return 'complete';
      if (text === '# incomplete') return 'incomplete';
      const fields = parseCsvRecord(text, true);
      if (columns === undefined) {
        columns = fields;
        return 'head';
      }
      const indexes = keyFields.map((name) => columns?.indexOf(name) ?? -1);
      return { key: indexes.map((index) => fields[index] ?? '').join(':') };
    },
  };
}

/** Opens a file for appending. */
export const openForAppending = (path: string) => open(path, 'a');
