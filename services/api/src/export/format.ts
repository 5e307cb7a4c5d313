import { formatCsvRecord } from '@carillon/core/csv';
import { EXPORT_COLUMNS, type ExportKind, type ExportRow } from './rows.ts';

export const EXPORT_FORMATS = ['ndjson', 'csv'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

/** Writes an export in one format. */
export interface ExportWriter {
  contentType: string;
  /** Text before the first row of an export from its beginning. */
  head: string;
  formatRow(row: ExportRow): string;
  /** Returns the last line. */
  formatEnd(isComplete: boolean): string;
}

/** Returns the requested format; the parameter takes precedence over the header. */
export function chooseFormat(
  parameter: ExportFormat | undefined,
  accept: string | undefined,
): ExportFormat {
  if (parameter !== undefined) return parameter;
  return accept?.includes('text/csv') === true ? 'csv' : 'ndjson';
}

/** Creates the writer of a format for one kind of export. */
export function createWriter(kind: ExportKind, format: ExportFormat): ExportWriter {
  return format === 'csv' ? createCsvWriter(EXPORT_COLUMNS[kind]) : NDJSON;
}

const NDJSON: ExportWriter = {
  contentType: 'application/x-ndjson; charset=utf-8',
  head: '',
  formatRow({ fields, payload }) {
    const text = JSON.stringify(fields);
    return payload === undefined ? `${text}\n` : `${text.slice(0, -1)},"payload":${payload}}\n`;
  },
  formatEnd: (isComplete) => `${JSON.stringify({ complete: isComplete })}\n`,
};

function createCsvWriter(columns: readonly string[]): ExportWriter {
  return {
    contentType: 'text/csv; charset=utf-8; header=present',
    head: formatCsvRecord(columns),
    formatRow: ({ fields, payload }) =>
      formatCsvRecord(columns.map((column) => (column === 'payload' ? payload : fields[column]))),
    formatEnd: (isComplete) => `# ${isComplete ? 'complete' : 'incomplete'}\r\n`,
  };
}
